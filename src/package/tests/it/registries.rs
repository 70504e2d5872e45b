//! Push and pull against Debian's docker-registry, where it is installed, and against a registry of a few lines that
//! breaks in chosen ways.

use crate::common::{artifact, plan};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};
use zmlc_package::{
    Base, Compression, Credentials, PackageError, PushReport, Reference, check_layout, oci, oci_index, pull, push,
};

fn sent(report: &PushReport) -> usize {
    report.sent.len()
}

fn send(dir: &Path, to: &str, login: &Credentials) -> Result<PushReport, PackageError> {
    push(dir, &to.parse::<Reference>().unwrap(), login, &mut |_, _| {})
}

struct DockerRegistry {
    child: Child,
    address: String,
    _dir: tempfile::TempDir,
}
impl DockerRegistry {
    fn start() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        // A port that is free now; the registry cannot be asked to choose one.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {:?}}}}}\nhttp: {{addr: {address}}}\n",
            dir.path().join("data"),
        );
        fs::write(dir.path().join("config.yml"), config).unwrap();
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(dir.path().join("config.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("skipped: docker-registry is not installed");
            return None;
        };
        while TcpStream::connect(&address).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "docker-registry has ended");
            std::thread::yield_now();
        }
        Some(DockerRegistry { child, address, _dir: dir })
    }
}
impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Manifests in Docker's own format, as NVIDIA's images have them.
#[test]
fn an_image_in_dockers_format_is_a_base() {
    let Some(registry) = DockerRegistry::start() else { return };
    if Command::new("skopeo").arg("--version").output().is_err() {
        eprintln!("skipped: skopeo is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (out, back, on_it) = (dir.path().join("image"), dir.path().join("back"), dir.path().join("on it"));
    let path = artifact(dir.path(), &["cuda"]);
    let mut base = plan(&path);
    base.compression = Compression::Gzip;
    let below = oci(&base, &out).unwrap();
    let to = format!("{}/docker:1", registry.address);
    let copy = Command::new("skopeo")
        .args(["copy", "-q", "--format", "v2s2", "--dest-tls-verify=false"])
        .args([format!("oci:{}:latest", out.display()), format!("docker://{to}")])
        .output()
        .unwrap();
    assert!(copy.status.success(), "{copy:?}");
    pull(&to.parse().unwrap(), "amd64", &Credentials::none(), &back).unwrap();
    check_layout(&back).unwrap();
    base.base = Base::Layout(back);
    let report = oci(&base, &on_it).unwrap();
    check_layout(&on_it).unwrap();
    for (a, b) in below.layers.iter().zip(&report.layers) {
        assert_eq!(a.digest, b.digest);
    }
    // The digest that the registry knows, not that of the manifest as it was rewritten.
    let inspect = Command::new("skopeo")
        .args(["inspect", "--tls-verify=false", "--format", "{{.Digest}}", &format!("docker://{to}")])
        .output()
        .unwrap();
    let known = String::from_utf8(inspect.stdout).unwrap();
    let manifest = fs::read(on_it.join("blobs").join(report.digest.replace(':', "/"))).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["annotations"]["org.opencontainers.image.base.digest"], known.trim());
}

#[test]
fn docker_registry_takes_each_blob_once_and_gives_the_image_back() {
    let Some(registry) = DockerRegistry::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (out, back) = (dir.path().join("image"), dir.path().join("back"));
    let path = artifact(dir.path(), &["cuda"]);
    let first = oci(&plan(&path), &out).unwrap();
    let to = format!("{}/team/tiny:1", registry.address);
    let none = Credentials::none();
    let report = send(&out, &to, &none).unwrap();
    assert_eq!((report.digest.as_str(), sent(&report)), (first.digest.as_str(), first.layers.len() + 3));
    let again = send(&out, &to, &none).unwrap();
    assert_eq!((sent(&again), again.present.len()), (0, first.layers.len() + 3));

    // The registry has no referrers API: the SBOM is found by the fallback tag.
    let tag = first.digest.replace(':', "-");
    let url = format!("http://{}/v2/team/tiny/manifests/{tag}", registry.address);
    let listed = Command::new("curl").args(["-sH", "Accept: application/vnd.oci.image.index.v1+json", &url]).output();
    if let Ok(listed) = listed {
        let index: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
        assert_eq!(index["manifests"][0]["artifactType"], "application/vnd.cyclonedx+json");
    }

    // Another model: its layer, the config and the SBOM.
    artifact(dir.path(), &["cuda", "rocm"]);
    let second = oci(&plan(&path), &out).unwrap();
    let report = send(&out, &to, &none).unwrap();
    let model = &second.layers.last().unwrap().digest;
    assert_eq!(sent(&report), 3);
    assert!(report.sent.iter().any(|(d, _)| d == model));

    let digest = pull(&to.parse().unwrap(), "amd64", &none, &back).unwrap();
    assert_eq!(digest, second.digest);
    check_layout(&back).unwrap();
    // What came back serves as a base.
    let mut on_it = plan(&path);
    on_it.base = Base::Layout(back);
    oci(&on_it, &dir.path().join("on it")).unwrap();

    let missing = pull(&format!("{}/team/none:1", registry.address).parse().unwrap(), "amd64", &none, &out);
    let missing = missing.unwrap_err();
    assert_eq!((missing.code(), missing.to_string().matches("/team/none:1").count()), ("E1216", 1), "{missing}");
    assert!(missing.remedy().starts_with("check name and tag"));
    if Command::new("skopeo").arg("--version").output().is_ok() {
        let inspect = Command::new("skopeo")
            .args(["inspect", "--tls-verify=false", "--format", "{{.Digest}}", &format!("docker://{to}")])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&inspect.stdout).trim(), second.digest);
    }
}

#[test]
fn an_index_is_pushed_with_its_images() {
    let Some(registry) = DockerRegistry::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (out, back) = (dir.path().join("image"), dir.path().join("back"));
    let reports = oci_index(&[plan(&artifact(dir.path(), &["cuda"]))], &out).unwrap();
    let to = format!("{}/tiny", registry.address);
    send(&out, &to, &Credentials::none()).unwrap();
    let architecture = reports[0].platform.strip_prefix("linux/").unwrap();
    assert_eq!(pull(&to.parse().unwrap(), architecture, &Credentials::none(), &back).unwrap(), reports[0].digest);
    let other = pull(&to.parse().unwrap(), "s390x", &Credentials::none(), &back).unwrap_err();
    assert!(other.to_string().contains("none for linux/s390x"), "{other}");
}

/// What a registry of the tests holds, and the faults that are still to come.
#[derive(Default)]
struct State {
    blobs: BTreeMap<String, Vec<u8>>,
    upload: Vec<u8>,
    manifests: BTreeMap<String, Vec<u8>>,
    /// Requests of this method are answered with 500, this often.
    errors: BTreeMap<&'static str, usize>,
    /// The first PATCH is read up to here and the connection closed.
    drop_at: Option<usize>,
    /// Bytes of blobs received, over all requests.
    received: usize,
    /// `Authorization` that is wanted.
    token: Option<&'static str>,
    log: Vec<String>,
}

/// Serves until the test process ends.
fn fake(state: State) -> (String, Arc<Mutex<State>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let state = Arc::new(Mutex::new(state));
    let shared = state.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let shared = shared.clone();
            // A connection that breaks is what some tests want.
            std::thread::spawn(move || serve(stream.unwrap(), &shared));
        }
    });
    (address, state)
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut out = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_string(), words.next()?.to_string());
        let mut headers = BTreeMap::new();
        loop {
            let mut h = String::new();
            reader.read_line(&mut h).ok()?;
            let Some((k, v)) = h.trim_end().split_once(": ") else { break };
            headers.insert(k.to_ascii_lowercase(), v.to_string());
        }
        let length = headers.get("content-length").and_then(|l| l.parse().ok()).unwrap_or(0);
        let cut = if method == "PATCH" { state.lock().unwrap().drop_at.take() } else { None };
        let mut body = vec![0; cut.unwrap_or(length)];
        reader.read_exact(&mut body).ok()?;
        let mut s = state.lock().unwrap();
        let range = headers.get("content-range").map(|r| format!(" {r}")).unwrap_or_default();
        s.log.push(format!("{method}{range}"));
        if method == "PATCH" {
            s.received += body.len();
            s.upload.extend(&body);
        }
        if cut.is_some() {
            return None;
        }
        let (status, extra, content) = answer(&mut s, &method, &target, &headers, &body);
        let head = method == "HEAD";
        let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{extra}\r\n", content.len());
        out.write_all(text.as_bytes()).ok()?;
        out.write_all(if head { &[] } else { &content }).ok()?;
    }
}

type Reply = (u16, String, Vec<u8>);

fn answer(s: &mut State, method: &str, target: &str, headers: &BTreeMap<String, String>, body: &[u8]) -> Reply {
    let plain = |status| (status, String::new(), vec![]);
    if target.starts_with("/token?") {
        let given = headers.get("authorization").map(String::as_str);
        // me:secret
        return if given == Some("Basic bWU6c2VjcmV0") {
            (200, String::new(), br#"{"token": "good"}"#.to_vec())
        } else {
            plain(401)
        };
    }
    if let Some(token) = s.token
        && headers.get("authorization").map(String::as_str) != Some(token)
    {
        let host = &headers["host"];
        return (401, format!("www-authenticate: Bearer realm=\"http://{host}/token\",service=\"s\"\r\n"), vec![]);
    }
    if let Some(left) = s.errors.get_mut(method).filter(|n| **n > 0) {
        *left -= 1;
        return plain(500);
    }
    let location = "location: /v2/tiny/blobs/uploads/1\r\n".to_string();
    let last = target.rsplit('/').next().unwrap();
    match (method, target.contains("/uploads/"), target.contains("/manifests/")) {
        ("POST", true, _) => {
            s.upload.clear();
            (202, location, vec![])
        }
        ("PATCH", true, _) => (202, location, vec![]),
        ("GET", true, _) => {
            let range = format!("{location}range: 0-{}\r\n", s.upload.len().saturating_sub(1));
            (204, range, vec![])
        }
        ("PUT", true, _) => {
            let digest = last.split_once("digest=").unwrap().1.to_string();
            let blob = std::mem::take(&mut s.upload);
            let found = Sha256::digest(&blob).iter().fold("sha256:".to_string(), |t, b| format!("{t}{b:02x}"));
            if found != digest {
                return plain(400);
            }
            s.blobs.insert(digest, blob);
            plain(201)
        }
        ("PUT", _, true) => {
            s.manifests.insert(last.into(), body.to_vec());
            plain(201)
        }
        ("HEAD", ..) => plain(if s.blobs.contains_key(last) { 200 } else { 404 }),
        _ => plain(404),
    }
}

/// A layout and the bytes of its blobs, manifests left out.
fn image(dir: &Path) -> (std::path::PathBuf, usize) {
    let out = dir.join("image");
    oci(&plan(&artifact(dir, &["cuda"])), &out).unwrap();
    let index = fs::read_to_string(out.join("index.json")).unwrap();
    let blobs = fs::read_dir(out.join("blobs/sha256")).unwrap().map(|e| e.unwrap());
    let no_manifest = blobs.filter(|e| !index.contains(e.file_name().to_str().unwrap()));
    let bytes = no_manifest.map(|e| e.metadata().unwrap().len() as usize).sum();
    (out, bytes)
}

#[test]
fn errors_and_a_dropped_connection_are_survived_and_the_upload_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (out, bytes) = image(dir.path());
    let faults = State {
        errors: BTreeMap::from([("POST", 2), ("HEAD", 1), ("PUT", 1)]),
        drop_at: Some(100_000),
        ..State::default()
    };
    let (address, state) = fake(faults);
    send(&out, &format!("{address}/tiny:1"), &Credentials::none()).unwrap();
    let s = state.lock().unwrap();
    assert!(s.manifests.contains_key("1"));
    assert_eq!(s.blobs.values().map(Vec::len).sum::<usize>(), bytes);
    assert_eq!(s.received, bytes, "no byte is sent twice");
    assert!(s.log.iter().any(|l| l.starts_with("PATCH 100000-")), "{:?}", s.log);
}

#[test]
fn a_registry_that_stays_broken_is_named_and_a_second_push_sends_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let (out, bytes) = image(dir.path());
    let (address, state) = fake(State::default());
    state.lock().unwrap().errors.insert("PUT", usize::MAX);
    let e = send(&out, &format!("{address}/tiny:1"), &Credentials::none()).unwrap_err();
    assert_eq!(e.to_string(), format!("cannot push a blob to {address}/tiny:1: status 500 (5 attempts)"));
    assert_eq!(e.remedy(), "run it again: blobs that arrived are not sent again");
    state.lock().unwrap().errors.clear();
    send(&out, &format!("{address}/tiny:1"), &Credentials::none()).unwrap();
    assert_eq!(state.lock().unwrap().blobs.values().map(Vec::len).sum::<usize>(), bytes);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let e = send(&out, &format!("{closed}/tiny:1"), &Credentials::none()).unwrap_err();
    assert_eq!(e.code(), "E1216");
}

#[test]
fn a_token_is_fetched_with_the_login_of_the_config_file() {
    let dir = tempfile::tempdir().unwrap();
    let (out, _) = image(dir.path());
    let (address, state) = fake(State { token: Some("Bearer good"), ..State::default() });
    let to = format!("{address}/tiny:1");
    assert_eq!(send(&out, &to, &Credentials::none()).unwrap_err().code(), "E1218");
    let config = dir.path().join("config.json");
    fs::write(&config, format!(r#"{{"auths": {{"{address}": {{"auth": "bWU6c2VjcmV0"}}}}}}"#)).unwrap();
    send(&out, &to, &Credentials::from_file(&config)).unwrap();
    assert!(state.lock().unwrap().manifests.contains_key("1"));
}
