//! A chat with SmolLM2-135M-Instruct: two entries that share weights and a cache, on `zml-runtime` alone.
//!
//! `prefill` takes the first tokens of a conversation at once, `decode` one token at a position; both leave keys and
//! values in the cache, which stays on the device. Text comes out as it is made.

mod check;
mod model;
mod options;
mod sample;

use model::Chat;
use options::Options;
use std::{
    io::{BufRead, IsTerminal, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(o)) => o,
        Ok(None) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("error: {why}\nsee chat --help");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(o: &Options) -> Result<ExitCode> {
    let mut chat = Chat::open(o)?;
    if let Some(expected) = &o.check {
        return check::run(&mut chat, expected, o.tokens);
    }
    if let Some(prompt) = &o.prompt {
        answer(&mut chat, prompt, o)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stdin = std::io::stdin();
    loop {
        if stdin.is_terminal() {
            print!("> ");
            std::io::stdout().flush()?;
        }
        let mut line = String::new();
        if stdin.lock().read_line(&mut line)? == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        if !line.trim().is_empty() {
            answer(&mut chat, line.trim(), o)?;
        }
    }
}

/// Prints the answer token by token, and afterwards how fast it came.
fn answer(chat: &mut Chat, question: &str, o: &Options) -> Result<()> {
    let tokenizer = chat.tokenizer.clone();
    let mut ids = chat.ask(question)?;
    if chat.position + ids.len() >= chat.room {
        eprintln!("({} tokens are all that the cache holds: the conversation starts over)", chat.room);
        chat.forget()?;
        ids = chat.ask(question)?;
    }
    let mut sampler = o.sampler();
    let mut text = tokenizer.decode_stream(true);
    let begin = Instant::now();
    let (mut count, mut first) = (0, Duration::ZERO);
    let (asked, mut logits) = (ids.len(), chat.feed(&ids)?);
    while count < o.tokens {
        let id = sampler.choose(&logits);
        count += 1;
        if count == 1 {
            first = begin.elapsed();
        }
        if let Some(piece) = text.step(id)? {
            print!("{piece}");
            std::io::stdout().flush()?;
        }
        if chat.position == chat.room {
            break;
        }
        // The end is fed too: it belongs to the conversation.
        logits = chat.feed(&[id])?;
        if id == chat.end {
            break;
        }
    }
    println!();
    let rest = (begin.elapsed() - first).as_secs_f64();
    eprintln!(
        "(first token after {:.0} ms, {asked} tokens of prompt; then {:.1} tokens/s, {count} tokens)",
        first.as_secs_f64() * 1e3,
        f64::from(count) / rest
    );
    Ok(())
}
