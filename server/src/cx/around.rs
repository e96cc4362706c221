//! What surrounds a call besides its actor: parents, values of the context, what is answered once.

use std::sync::Arc;

use super::Cx;
use crate::entity::{Entity, EntityDesc, Field, FieldType};
use crate::validate::canonical_value;
use crate::{ContextDesc, ContextValue, Value};

/// What surrounds a call besides its actor.
#[derive(Clone, Debug, Default)]
pub(super) struct Around {
    /// Parameters of parent paths: storage name and field of the entity below, and the value.
    parents: Vec<(&'static str, usize, Value)>,
    /// Values of the context by name; null where who provides them has none.
    context: Vec<(&'static str, Value)>,
    /// What the call answers once.
    once: Option<Arc<super::Once>>,
    /// Entities whose lists it may read by way of another route, by storage name, and what it is
    /// limited to there.
    lists: Vec<(&'static str, Option<Arc<super::Only>>)>,
}

impl Cx {
    /// The same call below a parent: the value of a field that a parameter of `parent_path` is
    /// bound to.
    ///
    /// Over HTTP the path says it; in code, `cx.within(comment::doc_id, "d1")`.
    ///
    /// With the field of a `tenant`, [`Cx::system`] acts in that tenant: it sees, changes and makes
    /// records of the entity there and in no other one, whatever their scopes. Deleted records and
    /// what follows from a deletion it reaches everywhere. An actor acts in its own tenant; naming
    /// another one is an error of the call.
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
        let mut around = self.surroundings();
        around
            .parents
            .retain(|(of, at, _)| (*of, *at) != (entity.storage_name, field));
        around.parents.push((entity.storage_name, field, value));
        Self {
            around: Some(Arc::new(around)),
            ..self
        }
    }

    fn surroundings(&self) -> Around {
        self.around.as_deref().cloned().unwrap_or_default()
    }

    /// What [`Cx::within`] said of a field.
    pub(crate) fn bound(&self, entity: &EntityDesc, field: usize) -> Option<Value> {
        let mut parents = self.around.as_deref()?.parents.iter();
        parents
            .find(|(of, at, _)| (*of, *at) == (entity.storage_name, field))
            .map(|(.., value)| value.clone())
    }

    /// The same call with a value of the context, as `ctx(locale)` reads it.
    ///
    /// Over HTTP a plugin provides it; in code, `cx.with_context(locale, "de")`.
    #[must_use]
    pub fn with_context<V: ContextValue>(self, _value: V, held: impl Into<V::Value>) -> Self {
        self.with_context_values([(V::NAME, held.into().into_value())])
    }

    pub(crate) fn with_context_values(
        self,
        values: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Self {
        let mut around = self.surroundings();
        for (name, value) in values {
            around.context.retain(|(other, _)| *other != name);
            around.context.push((name, value));
        }
        Self {
            around: Some(Arc::new(around)),
            ..self
        }
    }

    /// Says a member of the answer that `output_once` of the route declares: it stands in the
    /// answer of this call, and nowhere else. Where there is no such answer, as in a call from
    /// code, it is dropped.
    ///
    /// # Errors
    /// `internal` when the route declares no such name, or another type.
    pub fn answer_once<T: FieldType>(&self, name: &str, value: T) -> crate::Result<()> {
        match self.once() {
            None => Ok(()),
            Some(once) => once.say(name, T::KIND, value.into_value()),
        }
    }

    /// The same call with room for what it answers once.
    pub(crate) fn answering_once(self, declared: &'static [crate::entity::FieldDesc]) -> Self {
        let once = Some(Arc::new(super::Once::new(declared)));
        Self {
            around: Some(Arc::new(Around {
                once,
                ..self.surroundings()
            })),
            ..self
        }
    }

    pub(crate) fn once(&self) -> Option<&super::Once> {
        self.around.as_deref()?.once.as_deref()
    }

    /// The same call, let through to what lists show by way of another route: each entity with the
    /// call as far as it sees that list.
    pub(crate) fn let_through(&self, lists: Vec<(&'static EntityDesc, Self)>) -> Self {
        let lists = lists
            .into_iter()
            .map(|(entity, cx)| (entity.storage_name, cx.only(entity).cloned()))
            .collect();
        Self {
            around: Some(Arc::new(Around {
                lists,
                ..self.surroundings()
            })),
            ..self.clone()
        }
    }

    /// The call as far as it sees the list of an entity, when it has been let through to that.
    pub(crate) fn through_list(&self, entity: &EntityDesc) -> Option<Self> {
        let (_, only) = self
            .around
            .as_deref()?
            .lists
            .iter()
            .find(|(of, _)| *of == entity.storage_name)?;
        Some(Self {
            only: only.clone(),
            ..self.clone()
        })
    }

    /// A value of the context; `None` when nobody has provided it, or there is none for this call.
    pub fn context<V: ContextValue>(&self, _value: V) -> Option<V::Value> {
        // Who provided it gave it this type.
        V::Value::from_value(self.provided(V::DESC)?.as_ref()).ok()
    }

    /// Every value of the context, by name.
    pub(crate) fn context_values(&self) -> &[(&'static str, Value)] {
        self.around.as_deref().map_or(&[], |around| &around.context)
    }

    /// Null when there is none for this call; `None` when nobody was asked.
    pub(super) fn provided(&self, desc: ContextDesc) -> Option<&Value> {
        self.around
            .as_deref()?
            .context
            .iter()
            .find(|(name, _)| *name == desc.name)
            .map(|(_, value)| value)
    }
}
