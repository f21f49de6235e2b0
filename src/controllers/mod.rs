//! Controllers: level-triggered loops that bring what is there nearer to what is wanted.

mod deployment;
