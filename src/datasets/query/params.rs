//! Parses the parameters of requests into queries.

use formats::write::Output;
use model::{
    page::{LIVE_ROWS_DEFAULT, Limit, ROWS_DEFAULT},
    resolution::Resolution,
    timestamp::Timestamp,
};
use tsdb::{catalog::DatasetRef, span::Order};

use super::{Bounds, Position, RowsQuery};
use crate::error::Unfit;

/// The refusal of a request that names no dataset, in the words of document 2.
pub(crate) const NO_DATASET: &str = "one of dataset or dataset_name is required";

/// A query for a whole range in one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DownloadQuery {
    pub(crate) dataset: DatasetRef,
    pub(crate) resolution: Resolution,
    /// Of any width.
    pub(crate) bounds: Bounds,
    pub(crate) output: Output,
}

/// The names and values of a query string, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Params(pub(crate) Vec<(String, String)>);

/// The last timestamp, if `text` is on the last day of the calendar: clients mean "for ever" by it, and
/// it is later than a [`Timestamp`] can be.
fn parse_end_of_time(text: &str) -> Option<Timestamp> {
    let rest = text.strip_prefix("9999-12-31")?;
    let earlier: Result<Timestamp, _> = format!("9999-12-29{rest}").parse();
    earlier.is_ok().then_some(Timestamp::MAX)
}

impl Params {
    /// The first value called `name`, if it is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// # Errors
    /// [`Unfit`] if the parameter is given and does not parse.
    pub(crate) fn number(&self, name: &'static str) -> Result<Option<u64>, Unfit> {
        let wrong = |_| Unfit::from(format!("{name} must be an integer of at least 0"));
        self.get(name).map(|text| text.parse().map_err(wrong)).transpose()
    }

    /// # Errors
    /// [`Unfit`] if the limit is given and does not parse, or is 0. One too high is lowered.
    pub(crate) fn limit(&self, default: usize) -> Result<Limit, Unfit> {
        let asked = self.number("limit")?;
        if asked == Some(0) {
            return Err("limit must be an integer of at least 1".into());
        }
        let asked = asked.map_or(default, |asked| usize::try_from(asked).unwrap_or(usize::MAX));
        Ok(Limit::clamp(asked))
    }

    /// # Errors
    /// [`Unfit`] without either parameter, or if the number does not parse.
    pub(crate) fn dataset(&self) -> Result<DatasetRef, Unfit> {
        if let Some(text) = self.get("dataset") {
            let id = text.parse().map(DatasetRef::Id);
            return id.map_err(|_| "dataset must be a positive integer".into());
        }
        let name = self.get("dataset_name").ok_or(NO_DATASET)?;
        Ok(DatasetRef::Name(name.to_owned()))
    }

    /// # Errors
    /// The first invalid parameter.
    pub(crate) fn rows(&self) -> Result<RowsQuery, Unfit> {
        let position = match (self.timestamp("after")?, self.number("offset")?) {
            (Some(_), Some(_)) => return Err("after and offset exclude each other".into()),
            (Some(cursor), None) => Position::After(cursor),
            (None, offset) => Position::Offset(offset.unwrap_or(0)),
        };
        Ok(RowsQuery {
            dataset: self.dataset()?,
            resolution: self.resolution()?,
            bounds: self.bounds()?,
            order: match self.get("ordering") {
                None | Some("timestamp") => Order::Ascending,
                Some("-timestamp") => Order::Descending,
                Some(_) => return Err("ordering must be timestamp or -timestamp".into()),
            },
            limit: self.limit(ROWS_DEFAULT)?,
            position,
        })
    }

    /// # Errors
    /// The first invalid parameter.
    pub(crate) fn download(&self) -> Result<DownloadQuery, Unfit> {
        Ok(DownloadQuery {
            dataset: self.dataset()?,
            resolution: self.resolution()?,
            bounds: self.bounds()?,
            output: self.output(Output::Json)?,
        })
    }

    /// The newest rows, within bounds of any width, and their form.
    ///
    /// # Errors
    /// The first invalid parameter.
    pub(crate) fn live(&self) -> Result<(RowsQuery, Output), Unfit> {
        let query = RowsQuery {
            dataset: self.dataset()?,
            resolution: Resolution::Raw,
            bounds: self.bounds()?,
            order: Order::Descending,
            limit: self.limit(LIVE_ROWS_DEFAULT)?,
            // The response has no count.
            position: Position::After(Timestamp::MAX),
        };
        Ok((query, self.output(Output::Ndjson)?))
    }

    fn output(&self, default: Output) -> Result<Output, Unfit> {
        let wrong = |_| "output must be one of json, csv, ndjson, parquet, arrow".into();
        self.get("output").map_or(Ok(default), |name| name.parse().map_err(wrong))
    }

    fn resolution(&self) -> Result<Resolution, Unfit> {
        let text = self.get("resolution").unwrap_or("raw");
        text.parse().map_err(|_| "resolution must be one of raw, 5m, 15m, 1h, 4h, 1d".into())
    }

    /// # Errors
    /// [`Unfit`] if a bound does not parse.
    pub(crate) fn bounds(&self) -> Result<Bounds, Unfit> {
        Ok(Bounds { start: self.timestamp("start")?, end: self.timestamp("end")? })
    }

    fn timestamp(&self, name: &'static str) -> Result<Option<Timestamp>, Unfit> {
        let Some(text) = self.get(name) else { return Ok(None) };
        // The plus sign of an offset that was not escaped arrives as a space.
        let text = text.trim_end().replace(' ', "+");
        let timestamp = text.parse().or_else(|error| parse_end_of_time(&text).ok_or(error));
        timestamp.map(Some).map_err(|_| {
            let example = "2026-07-30T21:57:00Z";
            Unfit::from(format!("{name} must be an RFC 3339 timestamp such as {example}"))
        })
    }
}
