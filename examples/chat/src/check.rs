//! Compares with answers that were recorded elsewhere: the recorded tokens are fed, and at each the likeliest next one is
//! compared wherever the record says that it leads by more than rounding can turn.

use crate::{Result, model::Chat, sample::likeliest};
use serde::Deserialize;
use std::{collections::BTreeMap, path::Path, process::ExitCode};

#[derive(Deserialize)]
struct Conversation {
    user: String,
    prompt_ids: Vec<u32>,
    /// By element type, beside what else there is.
    #[serde(flatten)]
    answers: BTreeMap<String, serde_json::Value>,
}
#[derive(Deserialize)]
struct Answer {
    generated_ids: Vec<u32>,
    top1_top2_margin: Vec<f32>,
}

pub fn run(chat: &mut Chat, expected: &Path, tokens: u32) -> Result<ExitCode> {
    let all: Vec<Conversation> = serde_json::from_slice(&std::fs::read(expected)?)?;
    let dtype = chat.dtype.to_string();
    let least = if dtype == "f32" { 0.05 } else { 0.3 };
    let mut right = true;
    for c in &all {
        let answer = c.answers.get(&dtype).ok_or_else(|| format!("no answer in {dtype} to {:?}", c.user))?;
        let answer = Answer::deserialize(answer)?;
        chat.forget()?;
        let ids = chat.ask(&c.user)?;
        if ids != c.prompt_ids {
            println!("WRONG {:?}: the prompt's tokens are {ids:?}, not {:?}", c.user, c.prompt_ids);
            right = false;
            continue;
        }
        let mut logits = chat.feed(&ids)?;
        let (mut compared, mut close, mut wrong) = (0, 0, vec![]);
        for (i, (id, margin)) in answer.generated_ids.iter().zip(answer.top1_top2_margin).enumerate() {
            if i as u32 == tokens {
                break;
            }
            let here = likeliest(&logits);
            if margin > least {
                compared += 1;
                wrong.extend((here != *id).then(|| format!("token {i}: {here}, not {id} (margin {margin})")));
            } else {
                close += 1;
            }
            if chat.position == chat.room {
                break;
            }
            logits = chat.feed(&[*id])?;
        }
        let text = chat.tokenizer.decode(&answer.generated_ids, true)?;
        let verdict = if wrong.is_empty() { "right" } else { "WRONG" };
        println!("{verdict} {:?}: {compared} tokens compared, {close} too close to tell; {text:?}", c.user);
        wrong.iter().for_each(|w| println!("  {w}"));
        right &= wrong.is_empty();
    }
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
