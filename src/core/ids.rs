//! Identifiers: dense indices into the tables that the name says, so that none is mistaken for another.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
        impl $name {
            /// As a table index.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(/** A rank: one process of the training job, driving one device. */ RankId);
id!(/** An op of a rank program: index into `Program::ops`. */ OpId);
id!(/** A communicator of a world: index into `World::comms`. */ CommId);
id!(/** A shared capacity (a link direction, a port, a tier's bandwidth): index into `World::resources`. */ ResourceId);
id!(/** A program: index into `World::programs`. */ ProgramId);
id!(/** What a communication op moves: index into a communicator profile's actions. */ TransferId);
id!(/** A memory tier instance with a capacity: index into `World::tiers`. */ TierId);
id!(/** A device of the machine. */ DeviceId);
