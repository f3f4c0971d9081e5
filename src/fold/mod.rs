//! Ranks and resources that must behave alike, merged exactly.
