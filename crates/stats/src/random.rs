//! A seeded source of randomness, so that an order can be had again.

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
/// Good enough to shuffle runs; not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The source that this seed gives, always the same.
    pub fn seeded(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below a limit, which is small before 2^64.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }

    /// Heads or tails.
    pub fn coin(&mut self) -> bool {
        self.bits() >> 63 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_are_those_of_the_reference_implementation() {
        // prng.di.unimi.it/splitmix64.c with the state 1234567.
        let mut random = Random::seeded(1_234_567);
        let bits = [random.bits(), random.bits(), random.bits()];
        assert_eq!(
            bits,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn a_coin_shows_both_sides_about_equally_often() {
        let mut random = Random::seeded(1);
        let heads = (0..10_000).filter(|_| random.coin()).count();
        assert!((4_800..5_200).contains(&heads), "{heads}");
    }
}
