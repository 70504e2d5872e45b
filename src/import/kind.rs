//! Files that people give for programs: what they are, and how to get the program out of them or out of the framework that
//! wrote them. It looks at the first bytes alone and decides nothing about files that are read.

/// What a file is (`a TensorFlow Lite model`), and what to do.
pub(crate) struct Kind {
    pub what: &'static str,
    pub hint: &'static str,
}
const fn kind(what: &'static str, hint: &'static str) -> Option<Kind> {
    Some(Kind { what, hint })
}

const TORCH: &str =
    "export it: `torchax.export.exported_program_to_stablehlo(torch.export.export(model, args))[1].mlir_module()`";
const TORCH_LOAD: &str = "load it in Python and export it: `torchax.export.exported_program_to_stablehlo(torch.export.load(file))[1].mlir_module()`";
const JAX: &str =
    "get StableHLO from JAX: `jax.jit(f).lower(x).as_text()`, or `jax.export.export(jax.jit(f))(x).mlir_module()`";
const TF: &str = "export StableHLO from TensorFlow with `tf_to_stablehlo`, or rebuild the model in JAX or PyTorch and export it there";
const WEIGHTS: &str = "weights are named in model.toml; the program is another file";
const UTF8: &str = "save it as UTF-8";
const ONNX: &str =
    "zmlc reads no ONNX: export StableHLO from the framework that the model was made in, `jax.export` or torchax";

/// Of files with control characters among their first bytes.
pub(crate) fn binary(bytes: &[u8]) -> Option<Kind> {
    let starts = |s: &[u8]| bytes.starts_with(s);
    if starts(b"PK\x03\x04") {
        return zip(&bytes[..bytes.len().min(1 << 16)]);
    }
    let known: &[(&[u8], &'static str, &'static str)] = &[
        (b"\x1f\x8b", "compressed with gzip", "unpack it with `gunzip`"),
        (b"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it with `unzstd`"),
        (b"\xfd7zXZ\0", "compressed with xz", "unpack it with `unxz`"),
        (b"BZh", "compressed with bzip2", "unpack it with `bunzip2`"),
        (
            b"GGUF",
            "a GGUF file, weights of llama.cpp",
            "convert the weights to safetensors, and export the program from the model's code in JAX or PyTorch",
        ),
        (b"\x93NUMPY", "a NumPy array", WEIGHTS),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes models", TF),
        (b"\x7fELF", "a binary for this machine (ELF)", JAX),
        (b"BC\xc0\xde", "LLVM bitcode, which is already lowered", JAX),
        (b"\x03\x02\x23\x07", "SPIR-V, which is already compiled", JAX),
        (b"\xff\xfe", "text in UTF-16", UTF8),
        (b"\xfe\xff", "text in UTF-16", UTF8),
    ];
    if let Some((_, what, hint)) = known.iter().find(|(magic, ..)| starts(magic)) {
        return kind(what, hint);
    }
    if bytes.get(4..8) == Some(b"TFL3") {
        return kind("a TensorFlow Lite model", TF);
    }
    if bytes.get(257..262) == Some(b"ustar") {
        return kind("a tar archive", "unpack it with `tar xf` and name the program inside");
    }
    if bytes.get(8..9) == Some(b"{") && bytes.get(4..8) == Some(&[0; 4]) {
        return kind("a safetensors file", WEIGHTS);
    }
    if starts(b"\x80") && matches!(bytes.get(1), Some(2..=5)) {
        return kind("a Python pickle, as `torch.save` wrote them", TORCH);
    }
    protobuf(bytes)
}

/// An archive by the names in it.
fn zip(first: &[u8]) -> Option<Kind> {
    let has = |name: &[u8]| first.windows(name.len()).any(|w| w == name);
    if has(b".npy") {
        return kind("a NumPy archive of arrays", WEIGHTS);
    }
    if has(b"serialized_exported_program") || has(b"archive_format") || has(b"models/model.json") {
        return kind("an exported program of PyTorch (.pt2)", TORCH_LOAD);
    }
    if has(b"constants.pkl") || has(b"/code/") {
        return kind("a TorchScript archive", TORCH);
    }
    if has(b"data.pkl") || has(b"archive/") || has(b".data/ve") {
        return kind("a PyTorch archive", TORCH);
    }
    if has(b"model.weights.h5") {
        return kind("a Keras model", TF);
    }
    kind("a zip archive", "unpack it and name the program inside")
}

/// Messages of protocol buffers by their first fields.
fn protobuf(bytes: &[u8]) -> Option<Kind> {
    let text = |at: usize| -> Option<&[u8]> {
        let n = *bytes.get(at)? as usize;
        let s = bytes.get(at + 1..at + 1 + n)?;
        (n > 1 && n < 0x80 && s.iter().all(u8::is_ascii_graphic)).then_some(s)
    };
    // ModelProto: its version, then the name of what made it or the graph.
    if bytes.first() == Some(&8) && matches!(bytes.get(1), Some(3..=20)) && matches!(bytes.get(2), Some(0x12 | 0x3a)) {
        return kind("an ONNX model", ONNX);
    }
    // SavedModel: its version, 1, then its first graph.
    if bytes.starts_with(&[8, 1, 0x12]) {
        return kind("a TensorFlow SavedModel", TF);
    }
    // HloModuleProto: its name, then its entry's; HloProto has it inside.
    let module = |at: usize| {
        bytes.get(at) == Some(&0x0a) && text(at + 1).is_some_and(|name| bytes.get(at + 2 + name.len()) == Some(&0x12))
    };
    let inside = bytes.iter().skip(1).take(8).position(|b| b & 0x80 == 0).map_or(0, |n| n + 2);
    if module(0) || (bytes.first() == Some(&0x0a) && module(inside)) {
        return kind("a serialized module of HLO", JAX);
    }
    None
}

/// Of texts in which no function was found, by their first words.
pub(crate) fn text(text: &[u8]) -> Option<Kind> {
    let text = String::from_utf8_lossy(&text[..text.len().min(1 << 12)]);
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|l| !l.is_empty());
    let first = lines.next()?;
    let second = lines.next().unwrap_or_default();
    let starts = |words: &[&str]| words.iter().any(|w| first.starts_with(w));
    let python = ["import ", "from ", "def ", "class ", "@jax", "#!", "\"\"\"", "print("];
    if starts(&["HloModule"]) {
        return kind("HLO text, not StableHLO", JAX);
    }
    if starts(&["{ lambda", "{lambda", "let "]) {
        return kind("a jaxpr, not StableHLO", JAX);
    }
    if starts(&["graph(", "ExportedProgram", "GraphModule", "opcode "]) {
        return kind("a printed graph of PyTorch, not StableHLO", TORCH);
    }
    if starts(&["; ModuleID", "source_filename", "target datalayout", "target triple", "define "]) {
        return kind("LLVM IR, which is already lowered", JAX);
    }
    if starts(&[".version ", "//\n// Generated by NVIDIA"]) {
        return kind("PTX, which is already compiled", JAX);
    }
    if starts(&["version https://git-lfs"]) {
        return kind("a pointer of Git LFS, not the file", "fetch the file itself with `git lfs pull`");
    }
    if starts(&["<!DOCTYPE", "<!doctype", "<html", "<?xml"]) {
        return kind("a web page, not a program", "the download failed? fetch the file again and look at what comes");
    }
    let table = first.starts_with('[') && first.ends_with(']') && second.contains('=');
    if table || (starts(&["[model]", "[[entry]]"])) {
        return kind(
            "TOML, not a program",
            "`zmlc build` takes model.toml; `zmlc check` and `program = ...` take the program that it names",
        );
    }
    if starts(&["{\"", "[{", "[\""]) || (matches!(first, "{" | "[") && second.starts_with(['"', '{', '}', ']'])) {
        return kind("JSON, not a program", JAX);
    }
    if starts(&python) || (first.starts_with('#') && python.iter().any(|w| second.starts_with(w))) {
        return kind("Python, not a program that it exported", JAX);
    }
    let mlir = ["module", "func", "builtin.", "#", "!", "%"];
    let field = |l: &str| {
        let name = l.trim_end_matches(|c| c != ':' && c != '{');
        let word = name.trim_end_matches([':', '{', ' ']);
        name.len() > 1 && !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if field(first) && field(second) && !starts(&mlir) {
        return kind("a protocol buffer as text, not StableHLO", JAX);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_files_by_their_first_bytes() {
        let zip = |name: &str| [b"PK\x03\x04\x14\0\0\0\0\0", name.as_bytes()].concat();
        let utf16: Vec<u8> = "\u{feff}module".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (bytes, what, hint) in [
            (zip("archive/data.pkl"), "a PyTorch archive", "torch.export"),
            (zip("model/constants.pkl"), "TorchScript", "torch.export"),
            (zip("archive_format"), ".pt2", "torch.export.load"),
            (zip("arr_0.npy"), "NumPy", "model.toml"),
            (zip("model.weights.h5"), "Keras", "tf_to_stablehlo"),
            (zip("program.mlir"), "a zip archive", "unpack"),
            (b"\x08\x08\x12\x07pytorch\x1a\x03".to_vec(), "ONNX", "torchax"),
            (b"\x08\x01\x12\x80\x20\x0a".to_vec(), "SavedModel", "tf_to_stablehlo"),
            (b"\x1c\0\0\0TFL3\x14\0".to_vec(), "TensorFlow Lite", "tf_to_stablehlo"),
            (b"\x0a\x05jit_f\x12\x06main.3".to_vec(), "HLO", "as_text()"),
            (b"\x0a\xc4\x01\x0a\x05jit_f\x12\x06main.3".to_vec(), "HLO", "as_text()"),
            (b"GGUF\x03\0\0\0".to_vec(), "GGUF", "safetensors"),
            (b"\x93NUMPY\x01\0".to_vec(), "NumPy", "model.toml"),
            (b"\x20\0\0\0\0\0\0\0{\"a\": 1}".to_vec(), "safetensors", "model.toml"),
            (b"\x80\x02}q\0".to_vec(), "pickle", "torch.export"),
            (b"\x89HDF\r\n\x1a\n\0".to_vec(), "HDF5", "tf_to_stablehlo"),
            (b"\x1f\x8b\x08\0".to_vec(), "gzip", "gunzip"),
            (utf16, "UTF-16", "UTF-8"),
        ] {
            let k = binary(&bytes).unwrap_or_else(|| panic!("{what} is not known"));
            assert!(k.what.contains(what) && k.hint.contains(hint), "{what}: {}: {}", k.what, k.hint);
        }
        assert!(binary(b"\0\0\0\0").is_none());
    }
}
