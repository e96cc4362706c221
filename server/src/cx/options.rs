//! Optional parts of a call: parents, context values, one-time members of the response.

use std::sync::Arc;

use super::Cx;
use crate::entity::{Entity, EntityDesc, Field, FieldType};
use crate::validate::canonical_value;
use crate::{ContextDesc, ContextValue, Value};

/// The optional parts of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct CallOptions {
    /// The values that [`Cx::within`] set: the storage name of the entity, the field, the value.
    parents: Vec<(&'static str, usize, Value)>,
    /// Context values by name; null if the provider returned none.
    context: Vec<(&'static str, Value)>,
    /// The one-time members of the response.
    once: Option<Arc<super::Once>>,
    /// Entities whose lists the call may read through another route, by storage name, with the
    /// limits that apply there.
    lists: Vec<(&'static str, Option<Arc<super::CallConditions>>)>,
}

impl Cx {
    /// Returns the same call below a parent. It sets the value of a field that a parameter of
    /// `parent_path` is bound to.
    ///
    /// Over HTTP the value comes from the path; in code, use `cx.within(comment::doc_id, "d1")`.
    ///
    /// With the field of a `tenant`, [`Cx::system`] acts in that tenant: it reads, changes and
    /// creates records of the entity only there, whatever their scopes. Calls that include deleted
    /// records still reach every tenant, and so do the effects of a deletion. An actor acts in its
    /// own tenant; another tenant is an error of the call.
    #[must_use]
    pub fn within<F: Field>(
        self,
        _field: F,
        value: impl Into<<F::Ty as FieldType>::Inner>,
    ) -> Self {
        let value = canonical_value(&F::Entity::DESC.fields[F::INDEX], value.into().into_value());
        self.within_value(F::Entity::DESC, F::INDEX, value)
    }

    pub(crate) fn within_value(self, entity: &EntityDesc, field: usize, value: Value) -> Self {
        let mut options = self.call_options();
        options
            .parents
            .retain(|(of, at, _)| (*of, *at) != (entity.storage_name, field));
        options.parents.push((entity.storage_name, field, value));
        Self {
            options: Some(Arc::new(options)),
            ..self
        }
    }

    fn call_options(&self) -> CallOptions {
        self.options.as_deref().cloned().unwrap_or_default()
    }

    /// The value that [`Cx::within`] set for a field.
    pub(crate) fn bound(&self, entity: &EntityDesc, field: usize) -> Option<Value> {
        let mut parents = self.options.as_deref()?.parents.iter();
        parents
            .find(|(of, at, _)| (*of, *at) == (entity.storage_name, field))
            .map(|(.., value)| value.clone())
    }

    /// Returns the same call with a context value, which declarations read as `ctx(locale)`.
    ///
    /// Over HTTP a plugin provides it; in code, use `cx.with_context(locale, "de")`.
    #[must_use]
    pub fn with_context<V: ContextValue>(
        self,
        _value: V,
        context_value: impl Into<V::Value>,
    ) -> Self {
        self.with_context_values([(V::NAME, context_value.into().into_value())])
    }

    pub(crate) fn with_context_values(
        self,
        values: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Self {
        let mut options = self.call_options();
        for (name, value) in values {
            options.context.retain(|(other, _)| *other != name);
            options.context.push((name, value));
        }
        Self {
            options: Some(Arc::new(options)),
            ..self
        }
    }

    /// Sets a member of the response that `output_once` of the route declares. Only the response of
    /// this call contains it. If there is no such response, as in a call from code, the value is
    /// dropped.
    ///
    /// # Errors
    /// `internal` if the route does not declare this name, or declares another type.
    pub fn answer_once<T: FieldType>(&self, name: &str, value: T) -> crate::Result<()> {
        match self.once() {
            None => Ok(()),
            Some(once) => once.set(name, T::KIND, value.into_value()),
        }
    }

    /// The same call with storage for its one-time members.
    pub(crate) fn answering_once(self, declared: &'static [crate::entity::FieldDesc]) -> Self {
        let once = Some(Arc::new(super::Once::new(declared)));
        Self {
            options: Some(Arc::new(CallOptions {
                once,
                ..self.call_options()
            })),
            ..self
        }
    }

    pub(crate) fn once(&self) -> Option<&super::Once> {
        self.options.as_deref()?.once.as_deref()
    }

    /// The same call with permission to read lists through another route: for each entity, the call
    /// with the limits of that list.
    pub(crate) fn let_through(&self, lists: Vec<(&'static EntityDesc, Self)>) -> Self {
        let lists = lists
            .into_iter()
            .map(|(entity, cx)| (entity.storage_name, cx.only(entity).cloned()))
            .collect();
        Self {
            options: Some(Arc::new(CallOptions {
                lists,
                ..self.call_options()
            })),
            ..self.clone()
        }
    }

    /// The call with the limits of an entity's list, if it has permission to read that list.
    pub(crate) fn through_list(&self, entity: &EntityDesc) -> Option<Self> {
        let (_, only) = self
            .options
            .as_deref()?
            .lists
            .iter()
            .find(|(of, _)| *of == entity.storage_name)?;
        Some(Self {
            only: only.clone(),
            ..self.clone()
        })
    }

    /// Returns a context value; `None` if there is no provider, or no value for this call.
    pub fn context<V: ContextValue>(&self, _value: V) -> Option<V::Value> {
        // The provider is registered with this type.
        V::Value::from_value(self.provided(V::DESC)?.as_ref()).ok()
    }

    /// Every value of the context, by name.
    pub(crate) fn context_values(&self) -> &[(&'static str, Value)] {
        self.options
            .as_deref()
            .map_or(&[], |options| &options.context)
    }

    /// The context value of a provider: null if the provider has no value for this call; `None` if
    /// no provider was called.
    pub(super) fn provided(&self, desc: ContextDesc) -> Option<&Value> {
        self.options
            .as_deref()?
            .context
            .iter()
            .find(|(name, _)| *name == desc.name)
            .map(|(_, value)| value)
    }
}
