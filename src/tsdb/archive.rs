//! Old rows as Parquet files, the same way for every engine.

pub mod month;
