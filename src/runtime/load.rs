//! Loads compiled code into an engine. This is the only `unsafe` code of the workspace.
//!
//! The engine checks that code was compiled by the same version and with the same settings, but machine
//! code itself is not sandboxed. So both functions take a [`CompiledCode`], which exists only for bytes
//! that this process or its child compiled, or that are unchanged in a directory to which only this user
//! can write (`disk.rs`). Such bytes are the output of `Engine::precompile_module` or
//! `precompile_component`, as the engine's functions require.
#![expect(unsafe_code, reason = "the engine has no safe function to load compiled code")]

use bytes::Bytes;
use wasmtime::component::Component;
use wasmtime::{Engine, Module};

/// Output of the engine's compiler.
pub(crate) struct CompiledCode(Bytes);

impl CompiledCode {
    /// Wraps `bytes`, which must be the unchanged output of the engine's compiler.
    pub(crate) fn trusted(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Loads a compiled module.
///
/// # Errors
/// If it was compiled for another engine.
pub(crate) fn module(engine: &Engine, code: &CompiledCode) -> wasmtime::Result<Module> {
    // SAFETY: the code is the unchanged output of the engine's compiler.
    unsafe { Module::deserialize(engine, code.bytes()) }
}

/// Loads a compiled component.
///
/// # Errors
/// As [`module`].
pub(crate) fn component(engine: &Engine, code: &CompiledCode) -> wasmtime::Result<Component> {
    // SAFETY: as in `module`.
    unsafe { Component::deserialize(engine, code.bytes()) }
}
