//! The command line.

use crate::sample::Sampler;
use std::{path::PathBuf, str::FromStr};
use zml_runtime::DeviceRequest;

pub const HELP: &str = "\
A chat with SmolLM2-135M-Instruct.

Usage: chat MODEL.zml TOKENIZER.json [OPTIONS]

  --device DEVICE    auto (default), vulkan[:N], cuda[:N], rocm[:N]
  --prompt TEXT      One question; without it, one a line from standard input
  --tokens N         At most this many tokens an answer (64)
  --top-p P          Choose among the likeliest tokens that together have this probability; without it the likeliest
  --temperature T    Of --top-p (0.8)
  --seed N           Of --top-p (1)
  --check FILE       Compare with recorded answers instead
";

pub struct Options {
    pub model: PathBuf,
    pub tokenizer: PathBuf,
    pub device: DeviceRequest,
    pub prompt: Option<String>,
    pub tokens: u32,
    pub check: Option<PathBuf>,
    top_p: Option<f32>,
    temperature: f32,
    seed: u64,
}

impl Options {
    /// None for `--help`.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut o = Options {
            model: PathBuf::new(),
            tokenizer: PathBuf::new(),
            device: DeviceRequest::Auto,
            prompt: None,
            tokens: 64,
            check: None,
            top_p: None,
            temperature: 0.8,
            seed: 1,
        };
        let mut words = vec![];
        while let Some(word) = args.next() {
            if word == "--help" {
                return Ok(None);
            }
            let Some(name) = word.strip_prefix("--") else {
                words.push(PathBuf::from(word));
                continue;
            };
            let value = args.next().ok_or_else(|| format!("--{name} needs a value"))?;
            match name {
                "device" => o.device = value.parse().map_err(|e: zml_runtime::Error| e.to_string())?,
                "prompt" => o.prompt = Some(value),
                "tokens" => o.tokens = number(name, &value)?,
                "top-p" => o.top_p = Some(number(name, &value)?),
                "temperature" => o.temperature = number(name, &value)?,
                "seed" => o.seed = number(name, &value)?,
                "check" => o.check = Some(value.into()),
                _ => return Err(format!("unknown option --{name}")),
            }
        }
        if o.top_p.is_some_and(|p| !(p > 0.0 && p <= 1.0)) {
            return Err("--top-p is over 0 and at most 1".into());
        }
        if o.temperature <= 0.0 {
            return Err("--temperature is over 0".into());
        }
        let Ok([model, tokenizer]) = <[PathBuf; 2]>::try_from(words) else {
            return Err("give the model and its tokenizer".into());
        };
        Ok(Some(Options { model, tokenizer, ..o }))
    }

    pub fn sampler(&self) -> Sampler {
        match self.top_p {
            None => Sampler::Greedy,
            Some(p) => Sampler::TopP { p, temperature: self.temperature, state: self.seed },
        }
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("--{name} is a number, not {value}"))
}
