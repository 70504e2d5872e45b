//! The model, its session, and the conversation so far.

use crate::{Result, options::Options};
use std::{sync::Arc, time::Instant};
use tokenizers::Tokenizer;
use zml_runtime::{
    Artifact, Device, Model, Session, WeightPlaces,
    format::{DType, Entry},
};

const SYSTEM: &str = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

pub struct Chat {
    pub tokenizer: Arc<Tokenizer>,
    /// `<|im_end|>`
    pub end: u32,
    /// Tokens in the cache.
    pub position: usize,
    /// Tokens that it holds.
    pub room: usize,
    /// `f32`, `bf16`: of weights and cache.
    pub dtype: DType,
    /// Tokens that `prefill` takes.
    width: usize,
    session: Session,
}

impl Chat {
    pub fn open(o: &Options) -> Result<Self> {
        let begin = Instant::now();
        let tokenizer = Tokenizer::from_file(&o.tokenizer)?;
        let artifact = Artifact::open(&o.model)?;
        let device = Device::open(o.device, &artifact)?;
        let model = Model::load(&artifact, &device, &WeightPlaces::of(&artifact, None))?;
        let session = Session::new(&model)?;
        eprintln!("({device}; loaded in {:.1} s)", begin.elapsed().as_secs_f64());

        let cache = &model.manifest().state.first().ok_or("the model has no cache")?.tensor;
        let tokens = shape(model.entry(Some("prefill"))?, "tokens")?;
        let end = tokenizer.token_to_id("<|im_end|>").ok_or("the tokenizer has no <|im_end|>")?;
        Ok(Chat {
            tokenizer: Arc::new(tokenizer),
            end,
            position: 0,
            room: cache.shape[2] as usize,
            dtype: cache.dtype,
            width: tokens[1] as usize,
            session,
        })
    }

    /// The tokens of the next turn of the user, with what opens a conversation if it is the first.
    pub fn ask(&self, question: &str) -> Result<Vec<u32>> {
        let turn = format!("<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n");
        let text = match self.position {
            0 => format!("<|im_start|>system\n{SYSTEM}<|im_end|>\n{turn}"),
            _ => format!("\n{turn}"),
        };
        Ok(self.tokenizer.encode(text, false)?.get_ids().to_vec())
    }

    /// Begins a new conversation. The cache keeps what it has: nothing reads beyond the position.
    pub fn forget(&mut self) -> Result<()> {
        self.position = 0;
        Ok(self.session.reset()?)
    }

    /// Puts tokens behind those that are there; the logits of what follows. There must be room for them, and at least one.
    pub fn feed(&mut self, ids: &[u32]) -> Result<Vec<f32>> {
        let mut rest = ids;
        let mut last = "decode";
        if self.position == 0 && ids.len() > 1 {
            let (now, later) = ids.split_at(ids.len().min(self.width));
            let mut tokens = vec![0; self.width];
            tokens[..now.len()].copy_from_slice(now);
            self.call("prefill", &tokens, now.len())?;
            (rest, last) = (later, if later.is_empty() { "prefill" } else { "decode" });
            self.position = now.len();
        }
        for id in rest {
            self.call("decode", &[*id], self.position)?;
            self.position += 1;
        }
        let bytes = self.session.read(last, 0)?;
        Ok(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }

    /// `number` is the length (prefill) or the position (decode).
    fn call(&mut self, entry: &str, tokens: &[u32], number: usize) -> Result<()> {
        let bytes: Vec<u8> = tokens.iter().flat_map(|t| t.to_le_bytes()).collect();
        self.session.write(entry, 0, &bytes)?;
        self.session.write(entry, 1, &(number as u32).to_le_bytes())?;
        Ok(self.session.call(entry)?)
    }
}

fn shape<'a>(entry: &'a Entry, input: &str) -> Result<&'a [u64]> {
    let found = entry.inputs().find(|(_, t)| t.name == input);
    Ok(&found.ok_or_else(|| format!("entry `{}` has no input `{input}`", entry.name))?.1.shape)
}
