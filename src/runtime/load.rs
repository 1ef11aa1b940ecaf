//! Loading compiled code into an engine: the one place of the workspace with `unsafe` code.
//!
//! The engine checks that code was compiled for it, by the same version and with the same settings,
//! but not that it is harmless: machine code does what it does, outside any sandbox. So both
//! functions take an [`AuthenticCode`], which exists only for bytes that this process compiled, or
//! that carry a valid tag under a key that only this user's processes know (`seal.rs`). Such bytes
//! are what `Engine::precompile_module` or `precompile_component` returned, unchanged, which is what
//! the engine's functions require.
#![expect(unsafe_code, reason = "the engine can load compiled code in no other way")]

use wasmtime::{Engine, Module, component::Component};

use crate::seal::AuthenticCode;

/// Loads a compiled module.
///
/// # Errors
/// If it was compiled for another engine.
pub(crate) fn module(engine: &Engine, code: &AuthenticCode) -> wasmtime::Result<Module> {
    // SAFETY: the code is authentic, so it is the unchanged output of the engine's compiler.
    unsafe { Module::deserialize(engine, code.bytes()) }
}

/// Loads a compiled component.
///
/// # Errors
/// As [`module`].
pub(crate) fn component(engine: &Engine, code: &AuthenticCode) -> wasmtime::Result<Component> {
    // SAFETY: as in `module`.
    unsafe { Component::deserialize(engine, code.bytes()) }
}
