//! A registry on this machine: Debian's docker-registry on a port of its own, for as long as the value lives.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

pub struct Registry {
    child: Child,
    /// `127.0.0.1:PORT`
    pub address: String,
    _data: tempfile::TempDir,
}

impl Registry {
    /// None where docker-registry is not installed, after saying so.
    pub fn start() -> Option<Self> {
        let data = tempfile::tempdir().expect("a folder");
        // A port that is free now; the registry cannot be asked to choose one.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let address = free.expect("a free port").to_string();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {:?}}}}}\nhttp: {{addr: {address}}}\n",
            data.path().join("data"),
        );
        let file = data.path().join("config.yml");
        std::fs::write(&file, config).expect("writable");
        let silent = || Stdio::null();
        let child = Command::new("docker-registry").arg("serve").arg(file).stdout(silent()).stderr(silent()).spawn();
        let Ok(mut child) = child else {
            assert!(std::env::var_os("CI").is_none(), "CI installs docker-registry");
            eprintln!("skipped: no docker-registry");
            return None;
        };
        while TcpStream::connect(&address).is_err() {
            assert!(child.try_wait().expect("it was started").is_none(), "docker-registry has ended");
            std::thread::yield_now();
        }
        Some(Registry { child, address, _data: data })
    }
}
impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
