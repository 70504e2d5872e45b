//! From logits to a token.

pub enum Sampler {
    /// The likeliest.
    Greedy,
    /// By chance, among the likeliest that together have the probability `p`.
    TopP { p: f32, temperature: f32, state: u64 },
}

impl Sampler {
    pub fn choose(&mut self, logits: &[f32]) -> u32 {
        match self {
            Sampler::Greedy => likeliest(logits),
            Sampler::TopP { p, temperature, state } => {
                let most = logits[likeliest(logits) as usize];
                let weight = |x: &f32| ((x - most) / *temperature).exp();
                let mut all: Vec<(u32, f32)> =
                    logits.iter().map(weight).enumerate().map(|(i, w)| (i as u32, w)).collect();
                all.sort_by(|a, b| b.1.total_cmp(&a.1));
                let total: f32 = all.iter().map(|t| t.1).sum();
                let mut kept = 0.0;
                let count = all.iter().position(|t| {
                    kept += t.1;
                    kept >= *p * total
                });
                let mut at = unit(state) * kept;
                let chosen = all[..=count.unwrap_or(all.len() - 1)].iter().find(|t| {
                    at -= t.1;
                    at <= 0.0
                });
                chosen.unwrap_or(&all[0]).0
            }
        }
    }
}

/// The first of the highest.
pub fn likeliest(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(i, _)| i as u32)
}

/// From 0 to 1, by SplitMix64.
fn unit(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 40) as f32 / (1u64 << 24) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_and_no_other_than_allowed() {
        let logits = [0.0, 3.0, 3.0, -1.0];
        assert_eq!(Sampler::Greedy.choose(&logits), 1);
        let mut s = Sampler::TopP { p: 0.9, temperature: 1.0, state: 7 };
        let seen: Vec<u32> = (0..200).map(|_| s.choose(&logits)).collect();
        assert!(seen.contains(&1) && seen.contains(&2));
        assert!(seen.iter().all(|t| [1, 2].contains(t)), "the two have 93 %");
    }
}
