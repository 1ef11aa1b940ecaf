//! What becomes of the fields of a file: the moment, a column, or nothing.

use std::collections::HashMap;

use model::{dataset::Dtype, row::Row, row::Value, timestamp::Timestamp};

use super::{
    cell::Cell,
    moment::{TimeUnit, moment},
};

/// What becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// It is the row's moment.
    Time,
    /// It is the value of the column at this place.
    Column(usize),
    /// Nothing.
    LeftOut,
    /// The plan does not know it. A row that has a value there is no row.
    Unknown,
}

/// A column to be made of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedColumn {
    /// The column's name.
    pub name: String,
    /// What its values are.
    pub dtype: Dtype,
}

/// What becomes of each field of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    by_field: HashMap<String, Target>,
    columns: Vec<PlannedColumn>,
    time_unit: Option<TimeUnit>,
}

/// A row that is being put together.
pub(super) struct Building {
    timestamp: Option<Timestamp>,
    values: Vec<Option<Value>>,
    wrong: Option<String>,
}

impl Plan {
    /// A plan that takes the moment from `time`; a number there counts `time_unit`, or what its size
    /// tells.
    #[must_use]
    pub fn new(time: &str, time_unit: Option<TimeUnit>) -> Self {
        let by_field = HashMap::from([(time.to_owned(), Target::Time)]);
        Self { by_field, columns: Vec::new(), time_unit }
    }

    /// The plan of a service's own rows, whose fields are called as their columns.
    #[must_use]
    pub fn of_service(columns: impl IntoIterator<Item = (String, Dtype)>) -> Self {
        let mut plan = Self::new("timestamp", None);
        for (name, dtype) in columns {
            plan.column(&name.clone(), PlannedColumn { name, dtype });
        }
        plan
    }

    /// Makes `field` the next column.
    pub fn column(&mut self, field: &str, column: PlannedColumn) {
        self.by_field.insert(field.to_owned(), Target::Column(self.columns.len()));
        self.columns.push(column);
    }

    /// Leaves `field` out.
    pub fn leave_out(&mut self, field: &str) {
        self.by_field.insert(field.to_owned(), Target::LeftOut);
    }

    /// The columns, in the order of the rows' values.
    #[must_use]
    pub fn columns(&self) -> &[PlannedColumn] {
        &self.columns
    }

    /// The names of the columns, in their order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// Makes a row of a service's row object, flat or with values of its own.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn row_of_json(&self, object: &[u8]) -> Result<Row, String> {
        let mut building = self.begin();
        super::json::members(object, &mut |name, cell| {
            building.take(self, self.target(name), name, cell);
        })?;
        building.finish(self)
    }

    pub(super) fn target(&self, field: &str) -> Target {
        self.by_field.get(field).copied().unwrap_or(Target::Unknown)
    }

    pub(super) fn begin(&self) -> Building {
        let values = vec![None; self.columns.len()];
        Building { timestamp: None, values, wrong: None }
    }
}

impl Building {
    /// Takes a field. What is wrong with the first that does not fit is kept.
    pub(super) fn take(&mut self, plan: &Plan, target: Target, name: &str, cell: Cell<'_>) {
        if self.wrong.is_some() {
            return;
        }
        let taken = match target {
            Target::LeftOut => Ok(()),
            Target::Time => moment(cell, plan.time_unit).map(|at| self.timestamp = Some(at)),
            Target::Unknown if cell.is_absent() => Ok(()),
            Target::Unknown => Err("the dataset has no such column, and none was planned".into()),
            Target::Column(idx) => match (plan.columns.get(idx), self.values.get_mut(idx)) {
                (Some(column), Some(value)) => cell.fit(column.dtype).map(|fit| *value = fit),
                _ => Ok(()),
            },
        };
        self.wrong = taken.err().map(|reason: String| format!("column {name}: {reason}"));
    }

    pub(super) fn finish(self, _plan: &Plan) -> Result<Row, String> {
        match (self.wrong, self.timestamp) {
            (Some(wrong), _) => Err(wrong),
            (None, None) => Err("it has no moment".to_owned()),
            (None, Some(timestamp)) => Ok(Row { timestamp, values: self.values }),
        }
    }
}
