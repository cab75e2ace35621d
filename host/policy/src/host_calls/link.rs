//! How a guest reaches a granted capability.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Val, types};

use super::{Call, HostCallFailed};
use crate::capability::{Capability, GrantedCapability};
use crate::guest::{Guest, go_on};
use crate::values::{from_json, to_json};

/// Offers the functions of a granted capability to a component. Its types are the component's own; whether they are the
/// capability's was checked when the policy was loaded.
pub(crate) fn link(
    linker: &mut Linker<Guest>,
    capability: &Arc<dyn Capability>,
    granted: &Arc<dyn GrantedCapability>,
) -> wasmtime::Result<()> {
    let mut instance = linker.instance(&format!("{}@{}", capability.interface(), capability.version()))?;
    for function in capability.functions() {
        let (capability, granted) = (capability.clone(), granted.clone());
        let name: Arc<str> = Arc::from(*function);
        instance.func_new_async(function, move |store, function_type, parameters, results| {
            let (capability, granted, name) = (capability.clone(), granted.clone(), name.clone());
            Box::new(async move {
                let (capability, granted) = (&*capability, &granted);
                let call = Call { capability, granted, function: &name, began: Instant::now() };
                answer(store, &call, &function_type, parameters, results).await
            })
        })?;
    }
    Ok(())
}

/// Answers a call of the guest, whose own time stands still meanwhile.
async fn answer(
    mut store: StoreContextMut<'_, Guest>,
    call: &Call<'_>,
    function_type: &types::ComponentFunc,
    parameters: &[Val],
    results: &mut [Val],
) -> wasmtime::Result<()> {
    let arguments = parameters.iter().map(to_json).collect::<Result<Vec<_>, _>>();
    let arguments = arguments.map_err(|problem| call.failed(problem))?;
    store.data_mut().pause();
    let Some(mut calls) = store.data_mut().host_calls.take() else {
        return Err(call.failed("a policy that was granted nothing can't call").into());
    };
    let answered = calls.answer(call, arguments).await;
    store.data_mut().host_calls = Some(calls);
    hand_over(call, &answered?, function_type, results)?;
    go_on(store);
    Ok(())
}

/// Makes the answer a value of the type that the component expects.
fn hand_over(
    call: &Call<'_>,
    answer: &Value,
    function_type: &types::ComponentFunc,
    results: &mut [Val],
) -> Result<(), HostCallFailed> {
    match (function_type.results().next(), results.first_mut()) {
        (Some(expected), Some(result)) => {
            *result = from_json(answer, &expected)
                .map_err(|problem| call.failed(format!("its answer does not fit: {problem}")))?;
        }
        (None, None) => {}
        _ => return Err(call.failed("its type has another number of results")),
    }
    Ok(())
}
