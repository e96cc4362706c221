//! The model of an entity: its whole declaration, with the names of fields resolved.
//!
//! `#[entity]` checks and expands it. Operations build it from the same declaration, which the
//! schema macro passes to them unchanged.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Ident, ItemStruct, LitStr, Path, Visibility};

use super::field::{Default, Field, Flag, Kind, doc_of};
use super::foreign_types;
use super::gates::Gates;
use super::parse::{EntityArgs, IndexArgs, Member, PaginationArgs, UniqueArgs};
use super::relations::Relation;
use super::search::Search;
use super::summaries::Summary;
use super::visibility::Visibility as RecordVisibility;
use crate::diagnostics::Diagnostics;
use crate::names;
use crate::operation::path::RouteOverride;
use crate::policy::Policy;
use crate::repair;

/// A declared entity.
#[derive(Debug)]
pub(crate) struct EntityModel {
    /// The struct of the app without Linchpin's attributes and with the version field.
    pub(crate) item: ItemStruct,
    /// `Post`.
    pub(crate) ident: Ident,
    pub(crate) vis: Visibility,
    /// The path of the runtime crate: `::linchpin` unless `crate = path` sets another.
    pub(crate) krate: TokenStream,
    /// `Post`, or the text of `name = ".."`.
    pub(crate) name: String,
    pub(crate) namespace: Option<LitStr>,
    /// `posts`.
    pub(crate) path: String,
    /// `blog_posts`.
    pub(crate) storage_name: String,
    /// The names as options set them, with their positions for errors.
    pub(crate) written: Written,
    pub(crate) doc: String,
    /// The fields in declaration order; the generated version field comes last.
    pub(crate) fields: Vec<Field>,
    /// The position of the first primary key; `None` is an error that has been reported.
    pub(crate) primary: Option<usize>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) uniques: Vec<Unique>,
    /// The declared default sort. If it is empty, the sort is the primary key, ascending.
    pub(crate) sort: Vec<IndexField>,
    pub(crate) pagination: PaginationArgs,
    /// Whether the list has numbered pages.
    pub(crate) numbered: bool,
    pub(crate) version: Option<Version>,
    /// The function of `check = path`: `fn(&Post) -> Result<(), Problem>`.
    pub(crate) check: Option<Path>,
    pub(crate) rename_from: Vec<LitStr>,
    pub(crate) stores: Vec<Ident>,
    /// `routes.defaults`.
    pub(crate) defaults: Policy,
    /// create, list, get, update, delete.
    pub(crate) routes: [Policy; 5],
    /// The methods and paths that replace those of the routes.
    pub(crate) route_override: [RouteOverride; 5],
    /// The visibility of records.
    pub(crate) visibility: RecordVisibility,
    /// The relations to other entities, `belongs_to` first.
    pub(crate) relations: Vec<Relation>,
    /// The gates and conditions, which also decide visibility.
    pub(crate) gates: Gates,
    /// The counters in records of other entities that count this entity's records.
    pub(crate) summaries: Vec<Summary>,
    /// The search provider.
    pub(crate) search: Option<Search>,
    /// The names of the generated items.
    pub(crate) generated: Generated,
    /// Whether an option other than the routes could not be read or resolved. A missing option may
    /// then be intended, so errors and advice about missing options are left out.
    pub(crate) has_unread_options: bool,
    /// Whether an option of the routes could not be read or resolved.
    pub(crate) has_unread_routes: bool,
    /// Whether the declaration has an error, see [`Self::make_inert`].
    pub(crate) inert: bool,
}

/// The names of the entity that options override.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) name: Option<LitStr>,
    pub(crate) path: Option<LitStr>,
    pub(crate) storage_name: Option<LitStr>,
}

/// The names of the generated items.
#[derive(Debug)]
pub(crate) struct Generated {
    /// `post`: the module of the field markers.
    pub(crate) module: Ident,
    /// `PostAdapter`.
    pub(crate) adapter: Ident,
    /// `PostCreate`.
    pub(crate) create: Ident,
    /// `PostPatch`.
    pub(crate) patch: Ident,
    /// `PostListQuery`.
    pub(crate) list_query: Ident,
    /// `__linchpin_Post`: the schema macro.
    pub(crate) schema: Ident,
}

/// A non-unique index.
#[derive(Debug)]
pub(crate) struct Index {
    /// The word `index`.
    pub(crate) key: Ident,
    pub(crate) fields: Vec<IndexField>,
    /// The word `global`.
    pub(crate) global: Option<Ident>,
}

/// A unique constraint.
#[derive(Debug)]
pub(crate) struct Unique {
    /// The word `unique`.
    pub(crate) key: Ident,
    pub(crate) fields: Vec<IndexField>,
    pub(crate) global: bool,
}

/// A resolved field that an option names.
#[derive(Debug, Clone)]
pub(crate) struct IndexField {
    /// The position in [`EntityModel::fields`].
    pub(crate) field: usize,
    pub(crate) desc: bool,
    /// The field as written.
    pub(crate) ident: Ident,
}

/// Optimistic concurrency.
#[derive(Debug)]
pub(crate) struct Version {
    /// The word `version`.
    pub(crate) key: Ident,
    /// The position of the counter.
    pub(crate) field: usize,
    pub(crate) required_on_write: bool,
}

impl EntityModel {
    /// Reads a declaration: the arguments of the attribute and its struct.
    ///
    /// All problems go to `d`. Every struct with named fields has a model, even after errors. So
    /// the expansion can use the parts that have no errors.
    pub(crate) fn parse(args: TokenStream, item: TokenStream, d: &mut Diagnostics) -> Option<Self> {
        let mut item = match repair::item::<ItemStruct>(&item) {
            Ok(item) => item,
            Err(error) => {
                let problem = match syn::parse2::<syn::DeriveInput>(item) {
                    // An enum or union; other items do not declare a type.
                    Ok(other) => {
                        d.error(&other.ident, format!("`{}` is not a struct", other.ident))
                    }
                    Err(_) => {
                        d.error_at(error.span(), format!("#[entity] needs a struct: {error}"))
                    }
                };
                problem.help("`#[entity] pub struct Post { .. }`");
                return None;
            }
        };
        let args = EntityArgs::parse(args, d);
        let before = d.len();
        if !matches!(item.fields, syn::Fields::Named(_)) {
            d.error(
                &item.ident,
                format!("entity `{}` needs named fields", item.ident),
            )
            .help(format!("`struct {} {{ .. }}`", item.ident));
            return None;
        }
        if !item.generics.params.is_empty() || item.generics.where_clause.is_some() {
            d.error(
                &item.generics,
                format!("entity `{}` cannot be generic: it is one table", item.ident),
            )
            .help("leave the parameters out");
            take_generics(&mut item);
        }
        // A second `#[entity]` would expand the struct again.
        item.attrs.retain(|attr| {
            let is_entity_attribute = attr
                .path()
                .segments
                .last()
                .is_some_and(|last| last.ident == "entity");
            if is_entity_attribute {
                d.error(attr, "`#[entity]` is given twice")
                    .help("keep one of them, with the options of both");
            }
            !is_entity_attribute
        });

        let krate = args
            .krate
            .as_ref()
            .map_or_else(|| quote!(::linchpin), |path| quote!(#path));
        let mut fields: Vec<Field> = Vec::with_capacity(item.fields.len());
        for field in &mut item.fields {
            let name = field
                .ident
                .as_ref()
                .map(|ident| ident.unraw().to_string())
                .unwrap_or_default();
            foreign_types::replace(&name, &mut field.ty, &krate, d);
            fields.push(Field::parse(field, d));
        }
        let version = args.version.as_ref().map(|version| {
            let ident = version
                .field
                .clone()
                .unwrap_or_else(|| Ident::new("version", version.key.span()));
            // If the app has a field with this name, the checks report it, and the field is kept.
            let field = fields
                .iter()
                .position(|f| f.ident == ident)
                .unwrap_or(fields.len());
            if field == fields.len() {
                push_version(&mut item, &ident);
                fields.push(Field::version(ident));
            }
            Version {
                key: version.key.clone(),
                field,
                required_on_write: version.required_on_write,
            }
        });

        let visibility = RecordVisibility::resolve(args.visibility, &mut fields, d);
        let relations = args
            .relations
            .into_iter()
            .filter_map(|relation| Relation::resolve(relation, &fields, d))
            .collect();
        let gates = Gates::resolve(args.gates, &fields, d);
        let summaries = args
            .summaries
            .into_iter()
            .filter_map(|summary| Summary::resolve(summary, &fields, d))
            .collect();
        let search = args
            .search
            .and_then(|opt| Search::resolve(&opt, &fields, d));

        let ident = item.ident.clone();
        let bare = ident.unraw().to_string();
        let name = args
            .name
            .as_ref()
            .map_or_else(|| bare.clone(), LitStr::value);
        let generated = Generated::for_struct(&bare, ident.span());
        let resolve = |members: &[Member], of: &str, d: &mut Diagnostics| {
            resolve_members(&fields, members, of, d)
        };
        let indexes = args.indexes.iter().map(
            |IndexArgs {
                 key,
                 members,
                 global,
             }| Index {
                key: key.clone(),
                fields: resolve(members, "index", d),
                global: global.clone(),
            },
        );
        let indexes = indexes.collect();
        let uniques = args.uniques.iter().map(
            |UniqueArgs {
                 key,
                 members,
                 global,
             }| Unique {
                key: key.clone(),
                fields: resolve(members, "unique", d),
                global: *global,
            },
        );
        let uniques = uniques.collect();
        let sort = resolve(&args.sort, "sort", d);
        Some(Self {
            krate,
            path: args
                .path
                .as_ref()
                .map_or_else(|| names::segment(&name), LitStr::value),
            storage_name: args.storage_name.as_ref().map_or_else(
                || names::storage(args.namespace.as_ref().map(LitStr::value).as_deref(), &name),
                LitStr::value,
            ),
            written: Written {
                name: args.name,
                path: args.path,
                storage_name: args.storage_name,
            },
            namespace: args.namespace,
            doc: doc_of(&item.attrs),
            primary: fields.iter().position(|f| f.has(Flag::Primary)),
            indexes,
            uniques,
            sort,
            pagination: args.pagination,
            numbered: args.numbered,
            version,
            check: args.check,
            rename_from: args.rename_from,
            stores: args.stores,
            defaults: args.defaults,
            routes: args.routes,
            route_override: args.route_override,
            visibility,
            relations,
            gates,
            summaries,
            search,
            generated,
            has_unread_options: args.unread || d.len() > before,
            has_unread_routes: args.routes_unread,
            inert: false,
            vis: item.vis.clone(),
            name,
            ident,
            fields,
            item,
        })
    }

    /// Removes the options that may contain a mistake, so that the expansion of a wrong declaration
    /// adds no errors.
    ///
    /// The struct, its inputs and its fields stay as declared.
    pub(crate) fn make_inert(&mut self) {
        for field in &mut self.fields {
            if let Default::Value(_) = field.options.default {
                field.options.default = Default::Poisoned;
            }
            field.options.rules = super::rules::RuleArgs::default();
        }
        self.pagination = PaginationArgs::default();
        self.check = None;
        self.inert = true;
    }

    /// Returns the path of its records below the mount, including the parent path:
    /// `documents/{docId}/comments`.
    pub(crate) fn base_path(&self) -> String {
        match super::visibility::parent_path(&self.visibility) {
            Some(parent) => format!("{parent}/{}", self.path),
            None => self.path.clone(),
        }
    }

    /// Returns the position of the field with this Rust name.
    pub(crate) fn index_of(&self, ident: &Ident) -> Option<usize> {
        let name = ident.unraw().to_string();
        self.fields.iter().position(|f| f.name == name)
    }

    /// Returns all field names, for suggestions.
    pub(crate) fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|f| f.name.as_str())
    }

    /// Returns the first field of the default sort: the declared one, or the primary key.
    fn first_sort_field(&self) -> usize {
        self.sort
            .first()
            .map_or(self.primary.unwrap_or(0), |place| place.field)
    }

    /// Whether the primary key or a declared index contains the records in this order or in the
    /// reverse order. A key is the position of a field, and whether the field is in descending
    /// order. The index may begin with fields that are `pinned` to one value.
    pub(crate) fn has_index_for(
        &self,
        keys: &[(usize, bool)],
        pinned: &dyn Fn(usize) -> bool,
    ) -> bool {
        let primary = self.primary.unwrap_or(0);
        // An index and an order both end with the primary key, in the direction of the field before
        // it.
        let with_primary_key = |keys: &[(usize, bool)]| {
            let mut keys = keys.to_vec();
            match keys.iter().position(|(field, _)| *field == primary) {
                Some(at) => keys.truncate(at + 1),
                None => keys.push((primary, keys.last().is_some_and(|(_, desc)| *desc))),
            }
            keys
        };
        let wanted = with_primary_key(keys);
        let matches = |index: &[(usize, bool)]| {
            let reversed = index
                .first()
                .zip(wanted.first())
                .is_some_and(|(a, b)| a.1 != b.1);
            index
                .iter()
                .map(|(field, desc)| (*field, *desc != reversed))
                .eq(wanted.iter().copied())
        };
        self.has_unread_options
            || wanted.len() == 1
            || self.listed_indexes().any(|index| {
                let index = with_primary_key(
                    &index
                        .fields
                        .iter()
                        .map(|place| (place.field, place.desc))
                        .collect::<Vec<_>>(),
                );
                let leading = index.len().checked_sub(wanted.len());
                leading.is_some_and(|leading| {
                    index[..leading].iter().all(|(field, _)| pinned(*field))
                        && matches(&index[leading..])
                })
            })
    }

    /// Whether these fields identify one record: they include the primary key or all fields of a
    /// unique.
    pub(crate) fn identify_one_record(&self, fields: &[usize]) -> bool {
        self.has_unread_options
            || self.primary.is_some_and(|p| fields.contains(&p))
            || self
                .uniques
                .iter()
                .any(|u| !u.fields.is_empty() && u.fields.iter().all(|p| fields.contains(&p.field)))
    }

    /// Returns the option that makes the field a key of another entity's records, if there is one.
    pub(crate) fn key_of(&self, field: usize) -> Option<&'static str> {
        if self
            .relations
            .iter()
            .any(|relation| relation.own_key() == Some(field))
        {
            Some("belongs_to")
        } else if self.gates.restricts_to_visible(field) {
            Some("gate")
        } else {
            self.summaries
                .iter()
                .any(|summary| summary.own_key() == field)
                .then_some("counter")
        }
    }

    /// The indexes that lists can use. A list reads the records of one tenant, so a `global` index
    /// does not help.
    fn listed_indexes(&self) -> impl Iterator<Item = &Index> {
        self.indexes.iter().filter(|index| index.global.is_none())
    }

    /// Whether the list route can filter by the field. In addition, the runtime allows filters by
    /// enums, and by booleans whose type is an alias: only rustc knows these types.
    pub(crate) fn filterable(&self, index: usize) -> bool {
        let field = &self.fields[index];
        let automatic = field.has(Flag::Primary)
            || field.kind == Kind::Boolean
            || self.relations.iter().any(|r| r.own_key() == Some(index))
            || self
                .listed_indexes()
                .flat_map(|i| &i.fields)
                .chain(self.uniques.iter().flat_map(|u| &u.fields))
                .any(|p| p.field == index);
        // Numbers are filterable only with the option.
        field.readable()
            && !field.kind.is_opaque()
            && (field.has(Flag::Filterable) || (automatic && field.kind != Kind::Number))
    }

    /// Whether the list route can sort by the field.
    pub(crate) fn sortable(&self, index: usize) -> bool {
        let field = &self.fields[index];
        let automatic = field.has(Flag::Primary)
            || self
                .listed_indexes()
                .filter_map(|i| i.fields.first())
                .any(|p| p.field == index)
            || self.first_sort_field() == index;
        field.readable() && field.kind.is_scalar() && (automatic || field.has(Flag::Sortable))
    }
}

fn resolve_members(
    fields: &[Field],
    members: &[Member],
    of: &str,
    d: &mut Diagnostics,
) -> Vec<IndexField> {
    let find = |member: &Member| {
        let name = member.ident.unraw().to_string();
        let field = fields.iter().position(|f| f.name == name);
        if field.is_none() {
            d.error(&member.ident, format!("unknown field `{name}` in {of}"))
                .suggest(&name, fields.iter().map(|f| f.name.as_str()));
        }
        field.map(|field| IndexField {
            field,
            desc: member.desc,
            ident: member.ident.clone(),
        })
    };
    members.iter().filter_map(find).collect()
}

/// Returns the module of markers for a struct of this name.
pub(crate) fn marker_module(bare: &str, span: Span) -> Ident {
    let snake = names::snake(bare);
    match snake.as_str() {
        // A name without letters has no snake-case form.
        "" => format_ident!("{bare}_", span = span),
        // The struct has a lower-case name. Types and modules share a namespace, so the module
        // needs another name.
        _ if snake == bare => format_ident!("{snake}_", span = span),
        _ => names::ident(&snake, span),
    }
}

impl Generated {
    fn for_struct(bare: &str, span: Span) -> Self {
        // The names of generated types are in PascalCase, even if the struct has a lower-case name.
        let stem = if bare.starts_with(char::is_lowercase) {
            names::pascal(bare)
        } else {
            bare.to_owned()
        };
        Self {
            module: marker_module(bare, span),
            adapter: format_ident!("{stem}Adapter", span = span),
            create: format_ident!("{stem}Create", span = span),
            patch: format_ident!("{stem}Patch", span = span),
            list_query: format_ident!("{stem}ListQuery", span = span),
            schema: format_ident!("__linchpin_{bare}", span = span),
        }
    }
}

/// Removes the generic parameters of a struct. Fields that use them get the type `String`, because
/// rustc would report each parameter as an unknown type.
fn take_generics(item: &mut ItemStruct) {
    let generics = std::mem::take(&mut item.generics);
    let mut names: Vec<String> = generics
        .type_params()
        .map(|param| param.ident.to_string())
        .collect();
    names.extend(generics.const_params().map(|param| param.ident.to_string()));
    names.extend(
        generics
            .lifetimes()
            .map(|param| param.lifetime.ident.to_string()),
    );
    for field in &mut item.fields {
        if mentions(field.ty.to_token_stream(), &names) {
            field.ty = syn::parse_quote!(::std::string::String);
        }
    }
}

/// Whether tokens contain one of the names, at any depth.
fn mentions(tokens: TokenStream, names: &[String]) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => names.contains(&ident.to_string()),
        TokenTree::Group(group) => mentions(group.stream(), names),
        _ => false,
    })
}

fn push_version(item: &mut ItemStruct, ident: &Ident) {
    if let syn::Fields::Named(named) = &mut item.fields {
        let doc = super::docs::version();
        named
            .named
            .push(syn::parse_quote!(#[doc = #doc] pub #ident: i64));
        if !named.named.trailing_punct() {
            named.named.push_punct(syn::token::Comma::default());
        }
    }
}
