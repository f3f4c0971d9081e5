//! Facts of a program that hold for all that differ from it in prices alone.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// Facts of a program, one of each type, where it has others of its shape: programs that differ in times, slowdowns
/// and memory rates of their kernels alone ([`super::Program::priced`]). A copy of a program is changed next, so it
/// has none.
#[derive(Debug, Default)]
pub struct ProgramFacts(Option<Arc<Mutex<Vec<Fact>>>>);

type Fact = Arc<dyn Any + Send + Sync>;

impl Clone for ProgramFacts {
    fn clone(&self) -> ProgramFacts {
        ProgramFacts::default()
    }
}

impl ProgramFacts {
    /// None yet of a program that will have others of its shape.
    pub fn shared() -> ProgramFacts {
        ProgramFacts(Some(Arc::default()))
    }
    /// Those of another program of this shape.
    pub fn same(&self) -> ProgramFacts {
        ProgramFacts(self.0.clone())
    }
    /// True if other programs may have this shape.
    pub fn are_shared(&self) -> bool {
        self.0.is_some()
    }
    /// The fact of a type: known, or found now.
    ///
    /// # Errors
    /// It cannot be found.
    pub fn try_of<T: Send + Sync + 'static, E>(
        &self,
        find: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let Some(facts) = &self.0 else { return find().map(Arc::new) };
        let facts = || facts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = facts().iter().find_map(|fact| Arc::clone(fact).downcast::<T>().ok());
        if let Some(known) = known {
            return Ok(known);
        }
        let found = Arc::new(find()?);
        facts().push(Arc::clone(&found) as Fact);
        Ok(found)
    }
    /// A copy of a small fact; nothing is kept where no other program has this shape.
    pub fn copy_of<T: Clone + Send + Sync + 'static>(&self, find: impl FnOnce() -> T) -> T {
        if self.are_shared() { (*self.of(find)).clone() } else { find() }
    }
    /// The fact of a type: known, or found now.
    pub fn of<T: Send + Sync + 'static>(&self, find: impl FnOnce() -> T) -> Arc<T> {
        match self.try_of(|| Ok::<T, std::convert::Infallible>(find())) {
            Ok(fact) => fact,
        }
    }
}
