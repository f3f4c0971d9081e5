//! Profiles beside each other: one job, each of another rank.

use super::model::RankEvents;
use stepsim_spec::SpecError;

/// Holds profiles to be of the ranks of one job, as far as their files say it. A timeline of this program may stand
/// beside any.
///
/// # Errors
/// Two of them are of one rank (a profiler that runs in cycles writes a file for each), or of jobs of different sizes.
pub fn of_one_job(profiles: &[RankEvents]) -> Result<(), SpecError> {
    let said: Vec<&RankEvents> = profiles.iter().filter(|p| !p.simulated && p.rank.is_some()).collect();
    for (i, later) in said.iter().enumerate() {
        let twice = said[..i].iter().find(|known| known.rank == later.rank && known.file != later.file);
        if let (Some(known), Some(rank)) = (twice, later.rank) {
            let problem = format!("is of rank {rank}, as {} is: a rank does not meet itself", known.file);
            return Err(SpecError::file(&later.file, problem)
                .allowed("a profile of each rank, all of the same steps of one job")
                .hint(format!("name one file a rank, as in `stepsim analyze {}`", latest(&said).join(" "))));
        }
        let other = said[..i].iter().find(|known| known.world_size != later.world_size);
        if let (Some(known), Some(size)) = (other, later.world_size) {
            let before = known.world_size.map_or("one that does not say".to_owned(), |n| n.to_string());
            let problem = format!("is of a job of {size} ranks, {} of {before}", known.file);
            return Err(SpecError::file(&later.file, problem)
                .hint("name the files of one job instead of their folder"));
        }
    }
    Ok(())
}

/// The last file of each rank, as names sort: cycles are numbered in the order in which they ran.
fn latest<'a>(profiles: &[&'a RankEvents]) -> Vec<&'a str> {
    let mut last = std::collections::BTreeMap::new();
    let mut sorted: Vec<&&RankEvents> = profiles.iter().collect();
    sorted.sort_by_key(|profile| &profile.file);
    for profile in sorted {
        last.insert(profile.rank, profile.file.as_str());
    }
    last.into_values().collect()
}
