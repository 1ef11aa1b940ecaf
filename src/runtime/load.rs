//! Loads compiled code into an engine. This is the only `unsafe` code of the workspace.
//!
//! The engine checks that code was compiled by the same version and with the same settings, but machine
//! code itself is not sandboxed. So both functions take an [`AuthenticCode`], which exists only for
//! bytes that this process compiled or that have a valid tag under a key known only to this user's
//! processes (`seal.rs`). Such bytes are the unchanged output of `Engine::precompile_module` or
//! `precompile_component`, as the engine's functions require.
#![expect(unsafe_code, reason = "the engine has no safe function to load compiled code")]

use wasmtime::component::Component;
use wasmtime::{Engine, Module};

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
