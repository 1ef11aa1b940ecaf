//! The demo functions that the program carries with it.

use model::function::FunctionId;

/// A function that the program carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DemoFunction {
    /// What people call it.
    pub(crate) name: &'static str,
    /// The bytes of its module.
    pub(crate) module: &'static [u8],
}

/// The demo functions, the one a newcomer runs first in front. Their sources stand in
/// `assets/functions/`.
pub(crate) const FUNCTIONS: [DemoFunction; 4] = [
    DemoFunction { name: "hello", module: include_bytes!("../../assets/functions/hello.wasm") },
    DemoFunction { name: "whoami", module: include_bytes!("../../assets/functions/whoami.wasm") },
    DemoFunction {
        name: "ohlcv-stats",
        module: include_bytes!("../../assets/functions/ohlcv-stats.wasm"),
    },
    DemoFunction { name: "predict", module: include_bytes!("../../assets/functions/predict.wasm") },
];

impl DemoFunction {
    /// The file to run.
    pub(crate) fn method(&self) -> String {
        format!("{}.wasm", self.name)
    }

    /// Its content id.
    pub(crate) fn id(&self) -> FunctionId {
        FunctionId::from_module(self.module)
    }
}
