//! Successive halving: all candidates on few seeds, the better half of them on twice as many, and so on.

use std::ops::Range;

/// How good a candidate is. Less is better; the first number decides.
pub(crate) type Rank = (f64, f64);

/// So many candidates are left, each measured on so many seeds by the end of the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) candidates: usize,
    pub(crate) seeds: usize,
}

/// The rounds for so many candidates. The last one has all seeds.
pub(crate) fn rounds(candidates: usize, seeds: usize) -> Vec<Round> {
    let halvings = candidates.max(1).next_power_of_two().ilog2().min(seeds.max(1).ilog2());
    let round = |number: u32| Round {
        candidates: candidates.div_ceil(1 << number),
        seeds: seeds.div_ceil(1 << (halvings - number)),
    };
    (0..=halvings).map(round).collect()
}

/// Measures the candidates round by round. `measure` gets those that are left and the seeds that are new to them, and
/// answers their ranks after these. Returns those of the last round, the best first; of equal ones the first.
pub(crate) fn halve<E>(
    candidates: usize,
    seeds: usize,
    mut measure: impl FnMut(&[usize], Range<usize>) -> Result<Vec<Rank>, E>,
) -> Result<Vec<usize>, E> {
    let (mut left, mut seen): (Vec<usize>, usize) = ((0..candidates).collect(), 0);
    for round in rounds(candidates, seeds) {
        left.truncate(round.candidates);
        left.sort_unstable();
        let ranks = measure(&left, seen..round.seeds)?;
        let mut ranked: Vec<(Rank, usize)> = ranks.into_iter().zip(left).collect();
        ranked.sort_by(|((one, one_next), one_number), ((other, other_next), other_number)| {
            one.total_cmp(other).then(one_next.total_cmp(other_next)).then(one_number.cmp(other_number))
        });
        left = ranked.into_iter().map(|(_, number)| number).collect();
        seen = round.seeds;
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn each_round_has_half_of_the_candidates_and_twice_the_seeds() {
        let of = |candidates, seeds| {
            rounds(candidates, seeds).into_iter().map(|it| (it.candidates, it.seeds)).collect::<Vec<_>>()
        };
        assert_eq!(of(16, 8), [(16, 1), (8, 2), (4, 4), (2, 8)]);
        assert_eq!(of(3, 8), [(3, 2), (2, 4), (1, 8)]);
        assert_eq!(of(5, 3), [(5, 2), (3, 3)]);
        assert_eq!((of(1, 8), of(9, 1)), (vec![(1, 8)], vec![(9, 1)]));
    }

    #[test]
    fn the_best_candidate_wins_and_the_worse_half_is_measured_no_further() {
        let mut measured = [0; 8];
        let ranks = |left: &[usize], new: Range<usize>| {
            left.iter().for_each(|candidate| measured[*candidate] += new.len());
            // Candidates 5 and 6 violate nothing; the first number of the others is worse.
            Ok::<_, Infallible>(
                left.iter().map(|it| (f64::from(u8::from(!(5..7).contains(it))), -(*it as f64))).collect(),
            )
        };
        let best = halve(8, 4, ranks).unwrap();
        assert_eq!((best, measured), (vec![6, 5], [1, 1, 1, 1, 2, 4, 4, 2]));
    }
}
