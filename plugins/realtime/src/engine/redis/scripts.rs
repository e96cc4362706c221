//! The functions that run on the server. Each one is atomic, and uses only keys of one stream,
//! which are all in one hash slot.

use std::sync::LazyLock;

use redis::Script;

/// The code that the functions for frames share.
///
/// - `p` is the position: a hash of `epoch`, `offset`, `last` (event), `expires`, and a
///   `fence:<consumer>` for each consumer.
/// - `s` is the stream of frames, with the ids `<offset>-0`.
/// - `i` is a sorted set: the event ids of the frames by their offsets.
const COMMON: &str = r"
local function text(number) return string.format('%.0f', number) end

-- The position; a new one if there is none, if it has expired, or if it cannot be read.
local function open(p, s, i, fresh, now, life)
  local found = redis.call('HMGET', p, 'epoch', 'offset', 'expires')
  local epoch, offset, til = found[1], tonumber(found[2] or ''), tonumber(found[3] or '')
  local valid = epoch and #epoch == 16 and not string.find(epoch, '[^%w_-]')
  valid = valid and offset and offset >= 0 and offset < 2 ^ 53 and offset % 1 == 0
  if valid and til and til > now and til < 2 ^ 53 then
    return epoch, offset, til
  end
  redis.call('DEL', s, i)
  redis.call('HDEL', p, 'last')
  redis.call('HSET', p, 'epoch', fresh, 'offset', '0', 'expires', text(now + life))
  redis.call('PEXPIRE', p, text(life))
  return fresh, 0, now + life
end

-- At most so many frames and bytes; a frame that is longer comes alone. Entries of another form are
-- counted and left out: another program has added them.
local function entries(p, s, epoch, offset, after, most, bytes)
  local last = redis.call('HGET', p, 'last') or ''
  local frames, size, from, foreign = {}, 0, '(' .. after .. '-0', 0
  while #frames < most do
    local count = math.min(most - #frames, 32)
    local some = redis.call('XRANGE', s, from, text(offset) .. '-0', 'COUNT', text(count))
    for _, one in ipairs(some) do
      if #one[2] ~= 6 or string.sub(one[1], -2) ~= '-0' then
        foreign = foreign + 1
      else
        size = size + #one[2][6]
        if size > bytes and #frames > 0 then return {epoch, text(offset), last, frames, foreign} end
        frames[#frames + 1] = one
      end
    end
    if #some < count then break end
    from = '(' .. some[#some][1]
  end
  return {epoch, text(offset), last, frames, foreign}
end
";

/// Keys: p, s, i, channel. Arguments: a new epoch, now, life of the position, kept size, kept
/// time, event, frame, consumer or nothing, fence. Returns epoch and offset, or `fenced` and the
/// highest fence. Fails with `DAMAGED` if the highest fence is not a number.
const APPEND: &str = r"
local p, s, i, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local fresh, now, life, size, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local event, frame, consumer, fence = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
if consumer ~= '' then
  local seen = redis.call('HGET', p, 'fence:' .. consumer)
  if seen and (#seen > 16 or string.find(seen, '%D') or seen == '') then
    return redis.error_reply('DAMAGED the fence of a consumer is not a number')
  end
  if seen and tonumber(seen) > tonumber(fence) then return {'fenced', seen} end
end
local epoch, offset = open(p, s, i, fresh, now, life)
if consumer ~= '' then redis.call('HSET', p, 'fence:' .. consumer, fence) end
local known = redis.call('ZSCORE', i, event)
if known then return {epoch, text(tonumber(known))} end
offset = offset + 1
local function add()
  return redis.pcall('XADD', s, 'MAXLEN', text(size), text(offset) .. '-0', 'e', event, 'a', ARGV[2], 'f', frame)
end
local added = add()
if type(added) == 'table' and added.err then
  if string.sub(added.err, 1, 9) == 'WRONGTYPE' then return added end
  -- The stream is ahead of the position, which was set back: its numbers are used up.
  redis.call('DEL', s, i)
  epoch, offset = fresh, 1
  redis.call('HSET', p, 'epoch', epoch)
  added = add()
  if type(added) == 'table' and added.err then return added end
end
redis.call('ZADD', i, text(offset), event)
redis.call('ZREMRANGEBYSCORE', i, '-inf', text(offset - size))
redis.call('HSET', p, 'offset', text(offset), 'last', event, 'expires', text(now + life))
redis.call('PEXPIRE', p, text(life))
redis.call('PEXPIRE', s, ttl)
redis.call('PEXPIRE', i, ttl)
redis.call('SPUBLISH', channel, 'f' .. epoch .. ' ' .. text(offset) .. ' ' .. ARGV[2] .. ' ' .. event .. '\n' .. frame)
return {epoch, text(offset)}
";

/// Keys: p, s, i. Arguments: a new epoch, now, life of the position, offset to read after, maximum
/// number of frames, maximum number of bytes. Returns epoch, offset, last event or nothing, frames,
/// number of foreign entries.
const ENTRIES: &str = r"
local p, s, i = KEYS[1], KEYS[2], KEYS[3]
local now, life = tonumber(ARGV[2]), tonumber(ARGV[3])
local epoch, offset, expires = open(p, s, i, ARGV[1], now, life)
if expires < now + life - 3600000 then
  redis.call('HSET', p, 'expires', text(now + life))
  redis.call('PEXPIRE', p, text(life))
end
return entries(p, s, epoch, offset, ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]))
";

/// Keys: p, s, i, channel. Arguments: the lost epoch, a new one, now, life of the position.
/// Returns the same values as `ENTRIES`.
const REPLACE: &str = r"
local p, s, i, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch, offset = open(p, s, i, ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]))
if epoch == ARGV[1] then
  redis.call('DEL', s, i)
  redis.call('HDEL', p, 'last')
  redis.call('HSET', p, 'epoch', ARGV[2], 'offset', '0')
  epoch, offset = ARGV[2], 0
  redis.call('SPUBLISH', channel, 'r')
end
return entries(p, s, epoch, offset, '0', 0, 0)
";

/// Keys: p, s, i, channel. Argument: a new epoch. Fences stay. Returns 0 if there is no position.
const RENEW: &str = r"
local p, s, i, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
redis.call('DEL', s, i)
if redis.call('EXISTS', p) == 0 then return 0 end
redis.call('HDEL', p, 'last')
redis.call('HSET', p, 'epoch', ARGV[1], 'offset', '0')
redis.call('SPUBLISH', channel, 'r')
return 1
";

/// Keys: three of a stream. Arguments: their types, and 1 if the first one has fences. Removes keys
/// of another type, and fences that are not numbers. Returns the names of the removed keys.
const MEND: &str = r"
local removed = {}
for n, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= ARGV[n] then
    redis.call('DEL', key)
    removed[#removed + 1] = key
  elseif kind == 'hash' and n == 1 and ARGV[4] == '1' then
    local all = redis.call('HGETALL', key)
    for f = 1, #all, 2 do
      local value = all[f + 1]
      local bad = #value > 16 or string.find(value, '%D') or value == ''
      if bad and string.sub(all[f], 1, 6) == 'fence:' then
        redis.call('HDEL', key, all[f])
        removed[#removed + 1] = key .. ' ' .. all[f]
      end
    end
  end
end
return removed
";

/// The code that the functions of presence share.
///
/// - `l` is a hash: for each user `<node>:<end of lease>`, separated by commas.
/// - `z` is a sorted set of users by the end of their last lease.
/// - `a` is a sorted set of users by the time of arrival.
const PRESENCE: &str = r"
local l, z, a = KEYS[1], KEYS[2], KEYS[3]

local function leases(user)
  local nodes = {}
  for node, til in string.gmatch(redis.call('HGET', l, user) or '', '([%w_%-]+):(%d+)') do
    nodes[node] = til
  end
  return nodes
end

local function forget(user)
  redis.call('HDEL', l, user)
  redis.call('ZREM', z, user)
  redis.call('ZREM', a, user)
end

-- Returns whether a lease is left.
local function store(user, nodes)
  local parts, last = {}, 0
  for node, til in pairs(nodes) do
    parts[#parts + 1] = node .. ':' .. til
    last = math.max(last, tonumber(til))
  end
  if #parts == 0 then
    forget(user)
    return false
  end
  redis.call('HSET', l, user, table.concat(parts, ','))
  redis.call('ZADD', z, string.format('%.0f', last), user)
  return true
end

-- Longer than any lease: the end of a lease is judged by the clock of the nodes.
local function keep()
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, '3600000') end
end
";

/// Arguments: node, now, end of the lease, users. Returns the users who have arrived.
const ENTER: &str = r"
local node, now, til = ARGV[1], ARGV[2], ARGV[3]
local arrived = {}
for n = 4, #ARGV do
  local user = ARGV[n]
  local nodes = leases(user)
  if next(nodes) == nil then
    arrived[#arrived + 1] = user
  end
  redis.call('ZADD', a, 'NX', now, user)
  nodes[node] = til
  store(user, nodes)
end
keep()
return arrived
";

/// Arguments: node, users. Returns the users who have left.
const LEAVE: &str = r"
local left = {}
for n = 2, #ARGV do
  local user = ARGV[n]
  local nodes = leases(user)
  if nodes[ARGV[1]] then
    nodes[ARGV[1]] = nil
    if not store(user, nodes) then left[#left + 1] = user end
  end
end
return left
";

/// Arguments: now. Returns the users whose leases have all expired.
const EXPIRE: &str = r"
local gone = redis.call('ZRANGEBYSCORE', z, '-inf', ARGV[1])
for _, user in ipairs(gone) do forget(user) end
return gone
";

/// Arguments: now, maximum number of users. Returns the number of all users, and then each user
/// followed by the time of arrival.
const PRESENT: &str = r"
local now, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local count = redis.call('ZCOUNT', z, '(' .. ARGV[1], '+inf')
local listed, from, page = {}, 0, 500
while #listed < 2 * most do
  local some = redis.call('ZRANGE', a, from, from + page - 1, 'WITHSCORES')
  if #some == 0 then break end
  for n = 1, #some, 2 do
    local til = redis.call('ZSCORE', z, some[n])
    if til and tonumber(til) > now and #listed < 2 * most then
      listed[#listed + 1] = some[n]
      listed[#listed + 1] = some[n + 1]
    end
  end
  from = from + page
end
return {count, listed}
";

fn script(common: &str, body: &str) -> Script {
    Script::new(&format!("{common}{body}"))
}

pub(super) static APPEND_SOURCE: LazyLock<String> = LazyLock::new(|| format!("{COMMON}{APPEND}"));
pub(super) static APPEND_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(&APPEND_SOURCE));
pub(super) static READ_SCRIPT: LazyLock<Script> = LazyLock::new(|| script(COMMON, ENTRIES));
pub(super) static REPLACE_SCRIPT: LazyLock<Script> = LazyLock::new(|| script(COMMON, REPLACE));
pub(super) static RENEW_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(RENEW));
pub(super) static MEND_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(MEND));
pub(super) static ENTER_SCRIPT: LazyLock<Script> = LazyLock::new(|| script(PRESENCE, ENTER));
pub(super) static LEAVE_SCRIPT: LazyLock<Script> = LazyLock::new(|| script(PRESENCE, LEAVE));
pub(super) static EXPIRE_SCRIPT: LazyLock<Script> = LazyLock::new(|| script(PRESENCE, EXPIRE));
pub(super) static PRESENT_SCRIPT: LazyLock<Script> = LazyLock::new(|| script(PRESENCE, PRESENT));
