//! Connects the inference service to the other services: implements the traits with which it runs
//! functions and reads rows.

use std::ops::RangeInclusive;
use std::time::Duration;

use ::inference::network::upstream::{
    Cause, DatasetColumn, Described, FlatRow, Job, PeerOutput, Rows, Runs,
};
use anyhow::Context as _;
use async_trait::async_trait;
use client::datasets::{Datasets, DatasetsQuery, NamedRow, RowsQuery};
use client::error::ClientError;
use client::functions::{CODE_OK, Functions};
use model::dataset::{Column, DatasetId, Dtype};
use model::function::FunctionId;
use model::page::Limit;
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use wire::functions::{EnvVar, ExecuteConfig, ExecuteRequest, ExecuteResponse};

/// Maximum number of datasets with the same name that an error lists.
const NAMED_DATASETS: usize = 100;

/// Maximum number of names that the error about a missing dataset lists.
const SHOWN_NAMES: usize = 20;

/// Runs the functions of topics on the cluster of a head.
#[derive(Debug)]
pub(crate) struct ClusterRuns {
    head: Functions,
}

impl ClusterRuns {
    pub(crate) const fn new(head: Functions) -> Self {
        Self { head }
    }

    /// Returns the content id of the function of `job`. Looks up a name for each run, since the
    /// function with this name can be replaced.
    async fn function_id(&self, job: &Job) -> Result<String, Cause> {
        if job.function.parse::<FunctionId>().is_ok() {
            return Ok(job.function.clone());
        }
        let functions = self.head.functions().await?;
        let found =
            functions.into_iter().find(|f| f.name == job.function && f.method == job.method);
        let missing = || format!("the head has no function `{}`", job.function);
        Ok(found.ok_or_else(missing)?.function_id)
    }
}

#[async_trait]
impl Runs for ClusterRuns {
    async fn run(&self, job: Job) -> Result<Vec<PeerOutput>, Cause> {
        let request = ExecuteRequest {
            function_id: self.function_id(&job).await?,
            method: job.method.clone(),
            config: ExecuteConfig {
                number_of_nodes: job.n_nodes.map_or(-1, i64::from),
                stdin: Some(job.stdin),
                env_vars: Some(
                    job.env.into_iter().map(|(name, value)| EnvVar { name, value }).collect(),
                ),
                ..ExecuteConfig::default()
            },
            subgroup: job.subgroup.map(|subgroup| subgroup.to_string()),
            ..ExecuteRequest::default()
        };
        let response = self.head.execute(&request).await?;
        // A response that is not complete is still used if it contains results, since each worker that
        // responded is an inferer of its own.
        if response.code != CODE_OK && response.results.is_empty() {
            let ExecuteResponse { code, message, .. } = response;
            let method = job.method;
            return Err(format!("{method} failed: the head responded {code}: {message}").into());
        }
        let mut outputs = Vec::new();
        for group in response.results {
            for peer in group.peers {
                let (stdout, exit_code) = (group.result.stdout.clone(), group.result.exit_code);
                outputs.push(PeerOutput { peer_id: peer.parse()?, stdout, exit_code });
            }
        }
        Ok(outputs)
    }
}

/// Reads rows from a dataset service.
#[derive(Debug)]
pub(crate) struct DatasetRows {
    service: Datasets,
}

impl DatasetRows {
    pub(crate) const fn new(service: Datasets) -> Self {
        Self { service }
    }

    /// Returns `id` if it is given, otherwise the id of the dataset `name`.
    pub(super) async fn id_of(
        &self,
        name: &str,
        id: Option<DatasetId>,
    ) -> anyhow::Result<DatasetId> {
        if let Some(id) = id {
            return Ok(id);
        }
        let found = self.find(name).await.map_err(anyhow::Error::from_boxed);
        found.with_context(|| format!("cannot find dataset {name}"))
    }

    /// Returns the names of some datasets that the key can see.
    async fn some_names(&self) -> Result<Vec<String>, Cause> {
        let query = DatasetsQuery { limit: Some(SHOWN_NAMES), ..DatasetsQuery::default() };
        let page = self.service.list(&query).await?;
        Ok(page.datasets.into_iter().map(|dataset| dataset.name).collect())
    }
}

#[async_trait]
impl Rows for DatasetRows {
    async fn describe(&self, name: &str, id: Option<DatasetId>) -> Result<Described, Cause> {
        let id = match id {
            Some(id) => id,
            None => match self.service.find_by_name(name).await {
                Ok(Some(dataset)) => dataset.id,
                Ok(None) => return Ok(Described::Missing { others: self.some_names().await? }),
                // Several datasets have this name.
                Err(ClientError::Refused { status: 409, .. }) => {
                    let (search, limit) = (name.to_owned(), Some(NAMED_DATASETS));
                    let query = DatasetsQuery { search, limit, ..DatasetsQuery::default() };
                    let mut named = self.service.list(&query).await?.datasets;
                    named.retain(|dataset| dataset.name == name);
                    let ids = named.into_iter().map(|dataset| dataset.id.to_string()).collect();
                    return Ok(Described::Ambiguous { ids });
                }
                Err(error) => return Err(error.into()),
            },
        };
        let columns = match self.service.columns(id).await {
            Ok(columns) => columns,
            Err(ClientError::Refused { status: 403 | 404, .. }) => {
                return Ok(Described::Missing { others: self.some_names().await? });
            }
            Err(error) => return Err(error.into()),
        };
        let column = |column: Column| DatasetColumn {
            is_numeric: matches!(column.dtype, Dtype::Integer | Dtype::Float),
            name: column.name,
        };
        Ok(Described::Found { id, columns: columns.into_iter().map(column).collect() })
    }

    async fn newest(&self, dataset: DatasetId, limit: u32) -> Result<Vec<FlatRow>, Cause> {
        let limit = Limit::clamp(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(flat(self.service.newest(dataset, limit).await?))
    }

    async fn rows_between(
        &self,
        dataset: DatasetId,
        column: &str,
        span: RangeInclusive<Timestamp>,
        limit: u32,
    ) -> Result<Vec<FlatRow>, Cause> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut query = RowsQuery {
            end: Some(*span.end()),
            // A cursor just before the first row: without a cursor, services limit the time range.
            after: Some(*span.start() - Duration::from_micros(1)),
            ..RowsQuery::oldest(dataset, Resolution::Raw, Limit::clamp(limit))
        };
        let (columns, mut rows) = ([column.to_owned()], Vec::new());
        // A page of a dataset with long texts or many columns has fewer rows than the limit.
        while rows.len() < limit {
            query.limit = Limit::clamp(limit - rows.len());
            let page = self.service.rows_of(&query, &columns).await?;
            rows.extend(page.rows.into_rows());
            let Some(next) = page.next else { break };
            query.after = Some(next);
        }
        Ok(flat(rows))
    }
}

/// Converts rows for models, which read only numeric values. Values of other types are left out.
pub(super) fn flat(rows: Vec<NamedRow>) -> Vec<FlatRow> {
    rows.into_iter()
        .map(|row| FlatRow {
            timestamp: row.timestamp,
            values: row
                .values
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.as_f64()?)))
                .collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::routing::{get, post};
    use axum::{Json, Router};
    use client::transport::Transport;
    use serde_json::json;
    use task::group::Group;
    use tokio::net::TcpListener;

    use super::*;

    static N_LISTS: AtomicU32 = AtomicU32::new(0);

    #[tokio::test]
    async fn replaced_function_is_run_by_its_new_id() {
        let list = async || {
            let id = N_LISTS.fetch_add(1, Ordering::Relaxed);
            let id = format!("id{id}");
            let function = json!({"name": "f", "function_id": id, "method": "m.wasm", "bytes": 1});
            Json(json!({ "functions": [function] }))
        };
        let execute = async |Json(request): Json<ExecuteRequest>| {
            let message = request.function_id;
            Json(ExecuteResponse { code: "500".to_owned(), message, ..ExecuteResponse::default() })
        };
        let router = Router::new()
            .route("/api/v1/functions", get(list))
            .route("/api/v1/functions/execute", post(execute));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let group = Group::default();
        group.spawn("head", async move { axum::serve(listener, router).await.unwrap() });
        let runs = ClusterRuns::new(Functions::new(Transport::new(&address, None).unwrap()));
        for id in ["id0", "id1"] {
            let job = Job {
                function: "f".to_owned(),
                method: "m.wasm".to_owned(),
                subgroup: None,
                n_nodes: None,
                env: [].into(),
                stdin: String::new(),
            };
            let error = runs.run(job).await.unwrap_err().to_string();
            assert!(error.ends_with(id), "{error}");
        }
        group.stop();
    }
}
