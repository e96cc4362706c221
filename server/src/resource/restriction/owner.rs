//! The owner values of a call: the tenant and scopes that restrict the records it sees, and that
//! are written to new records.

use super::{Reach, Restriction, RouteRestriction};
use crate::entity::ScopeFrom;
use crate::filter::CtxPath;
use crate::resource::gate;
use crate::store::layout;
use crate::{Cx, Error, Result, Value};

impl Restriction {
    /// Returns the reach of a call. The values of its tenant and scopes are appended to `out`.
    ///
    /// # Errors
    /// 401 for an anonymous caller without a required value, 403 for an authenticated one.
    pub(in crate::resource) fn reach(
        &self,
        cx: &Cx,
        route: &RouteRestriction,
        out: &mut Vec<Value>,
    ) -> Result<Reach> {
        if let Some(tenant) = self.within(cx) {
            out.push(self.fitting_tenant(tenant)?);
            return Ok(Reach::Within);
        }
        if cx.reaches_all() {
            let plain = self.desc.tenant.is_none()
                && self.desc.scope.is_empty()
                && self.call_values.is_none();
            return Ok(if cx.reaches_deleted() {
                Reach::Deleted
            } else if plain {
                Reach::Caller
            } else if cx.is_effect() && self.call_values.is_some() {
                Reach::Effect
            } else {
                Reach::System
            });
        }
        let tenant = self.tenant(cx, route)?;
        let reach = self.caller(cx, &tenant);
        out.extend((!tenant.is_null()).then_some(tenant));
        for scope in &route.scopes {
            out.push(self.scope(cx, *scope)?);
        }
        if let Some(call_values) = &self.call_values {
            out.extend(call_values.values(|path| cx.value(path)));
        }
        Ok(reach)
    }

    /// The fields of tenant and scopes with their values for this call. For the application itself:
    /// only the tenant that it acts in, if one is set.
    ///
    /// # Errors
    /// As [`Restriction::reach`].
    pub(in crate::resource) fn owners(
        &self,
        cx: &Cx,
        route: &RouteRestriction,
    ) -> Result<Vec<(usize, Value)>> {
        if cx.system_reason().is_some() {
            let tenant = self.desc.tenant.zip(self.within(cx));
            return tenant
                .map(|(tenant, value)| Ok((tenant.field, self.fitting_tenant(value)?)))
                .into_iter()
                .collect();
        }
        let tenant = self
            .desc
            .tenant
            .map(|tenant| Ok((tenant.field, self.tenant(cx, route)?)));
        let scopes = route
            .scopes
            .iter()
            .map(|scope| Ok((self.desc.scope[*scope].field, self.scope(cx, *scope)?)));
        tenant.into_iter().chain(scopes).collect()
    }

    /// The reach of a caller. If the records or their gates have tenants, the reach depends on
    /// whether the caller has one.
    fn caller(&self, cx: &Cx, tenant: &Value) -> Reach {
        let gates_have_tenants = self
            .call_values
            .as_ref()
            .is_some_and(|call_values| call_values.tenants);
        let has_no_tenant = match self.desc.tenant {
            Some(_) => tenant.is_null(),
            None => gates_have_tenants && cx.value(CtxPath::TenantId).is_null(),
        };
        let authenticated = || cx.get_actor().is_some_and(|actor| actor.id.is_some());
        match has_no_tenant {
            false => Reach::Caller,
            true if gates_have_tenants && !authenticated() => Reach::Anonymous,
            true => Reach::NoTenant,
        }
    }

    /// The tenant that a system call acts in, if one is set. Calls for deleted records reach every
    /// tenant, and so do the effects of a change.
    fn within(&self, cx: &Cx) -> Option<Value> {
        let tenant = self
            .desc
            .tenant
            .filter(|_| cx.system_reason().is_some() && !cx.is_effect() && !cx.reaches_deleted())?;
        cx.bound(self.desc, tenant.field)
    }

    fn fitting_tenant(&self, value: Value) -> Result<Value> {
        match self.desc.tenant {
            Some(tenant) => self.fitting(tenant.field, value),
            None => Ok(value),
        }
    }

    /// The tenant of the caller. Null if the entity has no tenants, or if the caller has no tenant
    /// and may use the records without one.
    fn tenant(&self, cx: &Cx, route: &RouteRestriction) -> Result<Value> {
        let Some(tenant) = self.desc.tenant else {
            return Ok(Value::Null);
        };
        let authenticated = cx.get_actor().is_some_and(|actor| actor.id.is_some());
        let own = cx.value(CtxPath::TenantId);
        if let Some(requested) = cx.bound(self.desc, tenant.field)
            && own != requested
        {
            let text = format!(
                "`within` names a tenant of `{}` that is not the tenant of the actor: an actor can use only its own tenant, `Cx::system(..).within(..)` can use any tenant",
                self.desc.name
            );
            return Err(Error::internal(text));
        }
        match own {
            Value::Null
                if (authenticated && tenant.optional) || (!authenticated && route.anonymous) =>
            {
                Ok(Value::Null)
            }
            Value::Null => Err(missing(authenticated)),
            value => self.fitting(tenant.field, value),
        }
    }

    /// The value of a scope.
    fn scope(&self, cx: &Cx, scope: usize) -> Result<Value> {
        let scope = &self.desc.scope[scope];
        match scope.from {
            ScopeFrom::Ctx(path) => self.fitting(scope.field, cx.bind(path)?),
            ScopeFrom::Path(name) => cx.bound(self.desc, scope.field).ok_or_else(|| {
                let (entity, parent) = (self.desc.name, self.desc.parent_path.unwrap_or_default());
                Error::internal(format!(
                    "`{entity}` has the parent `{parent}`: set `{name}` with `cx.within(..)`"
                ))
            }),
        }
    }

    /// A context value, converted to the type of a field. Tenants and ids are texts in the context.
    /// If the field is a number and the text is not, no record has that value.
    fn fitting(&self, field: usize, value: Value) -> Result<Value> {
        match gate::fitting(self.desc.fields[field].kind, value) {
            Value::Null => Err(Error::forbidden()),
            value => Ok(value),
        }
    }

    /// Writes tenant, scopes and expiry into the values of a new record, and replaces values that
    /// are already there. The application itself keeps values of tenant and scopes that are already
    /// there, unless [`Cx::within`] sets others.
    ///
    /// # Errors
    /// As [`Restriction::reach`]; 403 for the application itself if a value is required and none is
    /// set.
    pub(in crate::resource) fn stamp<V: NewValue>(
        &self,
        cx: &Cx,
        route: &RouteRestriction,
        values: &mut [V],
    ) -> Result<()> {
        let system = cx.system_reason().is_some();
        let owner = self.desc.tenant.map(|tenant| (tenant.field, None));
        let scopes = route
            .scopes
            .iter()
            .map(|i| (self.desc.scope[*i].field, Some(*i)));
        for (field, scope) in owner.into_iter().chain(scopes) {
            let value = match scope {
                _ if system => match cx
                    .bound(self.desc, field)
                    .or_else(|| values.get(field).and_then(NewValue::present))
                {
                    Some(value) => value,
                    None if self.desc.fields[field].optional => Value::Null,
                    None => return Err(Error::forbidden()),
                },
                None => self.tenant(cx, route)?,
                Some(scope) => self.scope(cx, scope)?,
            };
            values[field] = value.into();
        }
        if let Some((field, value)) = layout::expiry(self.desc, cx.now()) {
            values[field] = value.into();
        }
        Ok(())
    }
}

/// A value of a new record that may be missing.
pub(in crate::resource) trait NewValue: From<Value> {
    /// The value, unless it is null or missing.
    fn present(&self) -> Option<Value>;
}

impl NewValue for Value {
    fn present(&self) -> Option<Value> {
        (!self.is_null()).then(|| self.clone())
    }
}

impl NewValue for Option<Value> {
    fn present(&self) -> Option<Value> {
        self.as_ref().and_then(NewValue::present)
    }
}

fn missing(authenticated: bool) -> Error {
    if authenticated {
        Error::forbidden()
    } else {
        Error::unauthorized()
    }
}
