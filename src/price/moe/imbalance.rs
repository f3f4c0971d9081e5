//! How unevenly rows reach ranks.
//!
//! Tokens that choose independently spread almost evenly: the rows of a rank over R·T tokens have variance R·T·v, and
//! the fullest of R ranks gets 1 + z(R)·sd/mean·√(R/(R−1)) times the mean, z(R) the mean maximum of R normals. Real
//! tokens are not independent: in DeepSeek's published profile, with balanced routing, the received rows of one rank
//! varied by 8 % from layer to layer where independence gives 0.55 % (`expert_load.rows_cv`).

use crate::documents::expected::mean_maximum;

/// Rows of the fullest rank over the mean where a rank's rows have this coefficient of variation.
pub fn fullest(cv: f64, ranks: u64) -> f64 {
    if ranks < 2 {
        return 1.0;
    }
    let r = ranks as f64;
    1.0 + mean_maximum(ranks) * cv * (r / (r - 1.0)).sqrt()
}
