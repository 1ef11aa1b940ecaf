//! Conversions between bodies and the types of `model`.

use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::parse::ParseError;
use model::row::{Bucket, Value};
use model::timestamp::Timestamp;

use super::{BucketBody, ColumnBody, CreateColumn, DatasetBody, ValueBody};

impl CreateColumn {
    /// Returns a column `name` of type `dtype`.
    pub fn new(name: impl Into<String>, dtype: Dtype) -> Self {
        Self { name: name.into(), dtype: dtype.to_string() }
    }
}

impl From<Dataset> for DatasetBody {
    fn from(dataset: Dataset) -> Self {
        Self {
            id: dataset.id.get(),
            name: dataset.name,
            description: dataset.description,
            metadata: dataset.metadata,
            created_at: dataset.created_at.to_string(),
            updated_at: dataset.updated_at.to_string(),
        }
    }
}

impl TryFrom<DatasetBody> for Dataset {
    type Error = ParseError;

    fn try_from(body: DatasetBody) -> Result<Self, Self::Error> {
        Ok(Self {
            id: dataset_id(body.id)?,
            name: body.name,
            description: body.description,
            metadata: body.metadata,
            created_at: body.created_at.parse()?,
            updated_at: body.updated_at.parse()?,
        })
    }
}

impl From<Column> for ColumnBody {
    fn from(column: Column) -> Self {
        Self {
            id: column.id,
            dataset_id: column.dataset_id.get(),
            name: column.name,
            dtype: column.dtype.to_string(),
            created_at: column.created_at.to_string(),
        }
    }
}

impl TryFrom<ColumnBody> for Column {
    type Error = ParseError;

    fn try_from(body: ColumnBody) -> Result<Self, Self::Error> {
        Ok(Self {
            id: body.id,
            dataset_id: dataset_id(body.dataset_id)?,
            name: body.name,
            dtype: body.dtype.parse()?,
            created_at: body.created_at.parse()?,
        })
    }
}

impl From<Value> for ValueBody {
    fn from(value: Value) -> Self {
        match value {
            Value::Float(number) => Self::Float(number),
            Value::Integer(number) => Self::Integer(number),
            Value::String(text) => Self::String(text),
            Value::Boolean(truth) => Self::Boolean(truth),
        }
    }
}

impl From<ValueBody> for Value {
    fn from(body: ValueBody) -> Self {
        match body {
            ValueBody::Float(number) => Self::Float(number),
            ValueBody::Integer(number) => Self::Integer(number),
            ValueBody::String(text) => Self::String(text),
            ValueBody::Boolean(truth) => Self::Boolean(truth),
        }
    }
}

impl TryFrom<BucketBody> for Bucket {
    type Error = ParseError;

    fn try_from(body: BucketBody) -> Result<Self, Self::Error> {
        let timestamp: Timestamp = body.timestamp.parse()?;
        let missing = || ParseError::new(&body.timestamp, "the start of a bucket with all fields");
        let number = |number: Option<f64>| number.ok_or_else(missing);
        Ok(Self {
            timestamp,
            open: number(body.open)?,
            high: number(body.high)?,
            low: number(body.low)?,
            close: number(body.close)?,
            volume: number(body.volume)?,
            count: body.count.ok_or_else(missing)?,
        })
    }
}

fn dataset_id(number: i64) -> Result<DatasetId, ParseError> {
    DatasetId::new(number).map_or_else(|| number.to_string().parse(), Ok)
}
