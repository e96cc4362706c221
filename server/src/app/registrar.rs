//! The registrations of plugins after the adapters exist: names in policies, consumers of events,
//! search providers.

use std::sync::Arc;

use crate::event::{Consumer, EventSink};
use crate::http::{Middleware, NamedCheck, Registry, RouteAuth};
use crate::indexing::Providers;
use crate::permission::{Evaluator, YesNo};
use crate::seal::Reseal;
use crate::search::SearchProvider;
use crate::{Actor, Error, Result};

/// Registers the checks, middleware and evaluator behind the names in route policies, and also
/// event consumers, search providers and encrypted values.
#[derive(Debug, Default)]
pub struct Registrar {
    pub(super) auth: Option<RouteAuth>,
    pub(super) registry: Registry,
    pub(super) consumers: Vec<Consumer>,
    pub(super) searches: Providers,
    pub(super) reseals: Vec<Box<dyn Reseal>>,
}

impl Registrar {
    /// Adds a consumer of the events of every entity; see
    /// [`App::event_sink`](crate::App::event_sink). The name should begin with the name of the
    /// plugin.
    pub fn event_sink(&mut self, name: impl Into<String>, sink: impl EventSink) {
        self.consumers
            .push(Consumer::new(name.into(), Arc::new(sink), None));
    }

    /// Registers a search provider; see [`App::search_provider`](crate::App::search_provider).
    pub fn search_provider(&mut self, name: impl Into<String>, provider: impl SearchProvider) {
        self.searches.add(name.into(), Arc::new(provider));
    }

    /// Registers stored values for the command `rekey`. A text field with one encrypted value needs
    /// only [`PostCx::sealed_field`](crate::PostCx::sealed_field).
    pub fn reseal(&mut self, values: impl Reseal) {
        self.reseals.push(Box::new(values));
    }

    /// Defines a name in `auth` or `guards`, in addition to the names of the route auth.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn named(&mut self, name: impl Into<String>, check: impl Into<NamedCheck>) -> Result<()> {
        let name = name.into();
        if name == "userAuth" || self.registry.named.contains_key(&name) {
            return Err(Error::internal(format!(
                "two plugins register `{name}`; keep one"
            )));
        }
        self.registry.named.insert(name, check.into());
        Ok(())
    }

    /// Declares roles. For an enum: `registrar.roles(Role::NAMES.iter().copied())`. After the first
    /// declaration, even an empty one, a policy with an undeclared role is a start-up error.
    pub fn roles<R: Into<String>>(&mut self, roles: impl IntoIterator<Item = R>) {
        self.registry
            .roles
            .get_or_insert_default()
            .extend(roles.into_iter().map(Into::into));
    }

    /// Declares roles that are listed in a setting. If a policy needs a role that is missing,
    /// the start-up error contains the name of this setting.
    pub fn roles_of<R: Into<String>>(
        &mut self,
        setting: impl Into<String>,
        roles: impl IntoIterator<Item = R>,
    ) {
        self.registry.roles_at = Some(setting.into());
        self.roles(roles);
    }

    /// Defines a name for `middleware = ["name"]`.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn middleware(&mut self, name: impl Into<String>, middleware: Middleware) -> Result<()> {
        let name = name.into();
        if self.registry.middleware.contains_key(&name) {
            return Err(Error::internal(format!(
                "two plugins register middleware `{name}`; keep one"
            )));
        }
        self.registry.middleware.insert(name, middleware);
        Ok(())
    }

    /// Installs the evaluator of `permission(..)`.
    ///
    /// # Errors
    /// If another plugin has installed one.
    pub fn set_evaluator(&mut self, evaluator: impl Evaluator) -> Result<()> {
        if self.registry.evaluator.is_some() {
            return Err(Error::internal(
                "two plugins install a permission evaluator; keep one",
            ));
        }
        self.registry.evaluator = Some(Arc::new(evaluator));
        Ok(())
    }

    /// Installs a function of actor and action that returns true or false as the evaluator of
    /// `permission(..)`. With false, the owner of a record still has access if the policy names an
    /// `owner_field`.
    ///
    /// # Errors
    /// As [`Registrar::set_evaluator`].
    pub fn set_permissions(
        &mut self,
        holds: impl Fn(&Actor, &str) -> bool + Send + Sync + 'static,
    ) -> Result<()> {
        self.set_evaluator(YesNo(holds))
    }

    /// Registers the checks for `auth`, `roles` and `guards`.
    ///
    /// # Errors
    /// On the second call.
    pub fn set_route_auth(&mut self, auth: RouteAuth) -> Result<()> {
        if self.auth.is_some() {
            return Err(Error::internal("two plugins register route auth; keep one"));
        }
        self.auth = Some(auth);
        Ok(())
    }
}
