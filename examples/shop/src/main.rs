//! A shop: products that a supplier updates, carts, orders by week, and vouchers that work once.

mod seed;

use linchpin::prelude::*;
use linchpin_auth::Auth;
use linchpin_webhooks::{Webhooks, WebhooksConfig, webhook_events};

/// A product. Its price is in whole cents.
#[entity(
    namespace = "shop",
    unique(sku),
    index(category, price_cents),
    sort = asc(sku),
    has_many(orders: Order, key = product_id, max = 5),
    routes(get(auth = none), list(auth = none), create(roles = ["staff"]), update(roles = ["staff"]), delete(roles = ["staff"])),
)]
#[derive(Clone, Debug)]
pub struct Product {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(pattern = "[A-Z]{2}-[0-9]{3}")]
    pub sku: String,
    #[field(length = 1..=100)]
    pub name: String,
    #[field(length = 1..=40)]
    pub category: String,
    #[field(range = 0..)]
    pub price_cents: i64,
    #[field(default = 0, range = 0.., read_only)]
    pub stock: i64,
}

/// Creates a product, or changes the one with this number.
#[operation(kind = "upsert", match(sku), set(name, category, price_cents), returns = "created", route(roles = ["staff"]))]
pub const IMPORT: Operation<Product>;

/// Adds ten pieces to the stock.
#[operation(kind = "increment", field = stock, by = 10, route(roles = ["staff"]))]
pub const RESTOCK: Operation<Product>;

/// Takes one piece from the stock, which never goes below zero.
#[operation(kind = "increment", field = stock, by = -1, route(roles = ["staff"]))]
pub const TAKE: Operation<Product>;

/// Searches products by name and category.
#[operation(kind = "search", fields(name, category), paginate, route(auth = none))]
pub const FIND: Operation<Product>;

/// Prices of products by category.
#[operation(
    kind = "aggregate",
    group_by = category,
    compute(products = count(), cheapest = min(price_cents), dearest = max(price_cents)),
    route(auth = none),
)]
pub const PRICES: Operation<Product>;

/// An order.
#[entity(
    namespace = "shop",
    belongs_to(product: Product, key = product_id),
    index(placed_at),
    sort = desc(placed_at),
    routes(roles = ["staff"]),
)]
#[derive(Clone, Debug)]
pub struct Order {
    #[field(primary, default = uuid)]
    pub id: String,
    pub product_id: String,
    #[field(range = 1..=100)]
    pub quantity: i64,
    #[field(range = 0..)]
    pub total_cents: i64,
    #[field(default = now, client_set)]
    pub placed_at: Timestamp,
}

/// Orders and revenue, by week.
#[operation(kind = "aggregate", group_by = week(placed_at), compute(orders = count(), revenue_cents = sum(total_cents)))]
pub const BY_WEEK: Operation<Order>;

/// A line of a cart: a product and its quantity.
#[derive(Embedded, Clone, Debug)]
pub struct Line {
    #[field(pattern = "[A-Z]{2}-[0-9]{3}")]
    pub sku: String,
    #[field(range = 1..=100)]
    pub quantity: i64,
}

/// The products that a customer wants to buy. A cart expires after a day without changes.
#[entity(namespace = "shop", scope(owner_id = ctx(actor.id)), ttl("1d"))]
#[derive(Clone, Debug)]
pub struct Cart {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub lines: Vec<Line>,
}

/// The lines of a cart, by product number.
#[operation(kind = "collection", field = lines, operations(list, add, update, remove), identify_by = sku, max_items = 20)]
pub const LINES: Operation<Cart>;

/// A code for a discount. It works once, and until it expires.
#[entity(
    namespace = "shop",
    unique(code),
    sort = asc(code),
    routes(create(roles = ["staff"]), update(roles = ["staff"]), delete(roles = ["staff"]), get(roles = ["staff"]), list(roles = ["staff"])),
)]
#[derive(Clone, Debug)]
pub struct Voucher {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 8..=32, sensitive)]
    pub code: String,
    #[field(range = 1..)]
    pub cents: i64,
    pub expires_at: Option<Timestamp>,
}

/// Redeems a voucher. If several callers send the same code, exactly one gets it. A rate limit
/// prevents guessing.
#[operation(
    kind = "consume",
    filter = (code == param(code)),
    returns = "entity",
    expiry = expires_at,
    route(rate_limit = "10/min", output(code, cents)),
)]
pub const REDEEM: Operation<Voucher>;

/// The package of the shop.
pub static SHOP: Package = package!(
    name = "shop",
    entities = [
        entity(Product, [IMPORT, RESTOCK, TAKE, FIND, PRICES]),
        entity(Order, [BY_WEEK]),
        entity(Cart, [LINES]),
        entity(Voucher, [REDEEM]),
    ],
);

#[tokio::main]
async fn main() -> linchpin::Result<()> {
    let auth = Auth::from_env().roles(["staff"]);
    // Members of the staff set the addresses of the warehouse and of the accounting.
    let webhooks = Webhooks::new(webhook_events! { Order: [created, updated] })
        .config(WebhooksConfig::from_env())
        .configure(|config| config.management_role = "staff".to_owned());
    App::new(Config::from_env()?)
        .plugin(auth)
        .plugin(webhooks)
        .package(&SHOP)
        .command("seed", "adds sample data", seed::run)
        .run()
        .await
}
