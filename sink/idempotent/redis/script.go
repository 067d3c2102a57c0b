package redis

import (
	"crypto/sha1"
	"encoding/hex"
)

// script writes rows. KEYS are the key of each row and that of its version. ARGV[1] is how
// many seconds the version of a deleted key stays; then come for each row its version ("" for
// none), its scope, and what to do:
//
//	S value                                   set
//	H n field value ... m field ...           set n fields, remove m
//	D                                         delete
//
// Versions are decimal numbers without leading zeros, compared by length and then by digits:
// Lua's numbers would round those above 2^53. The answer has for each row 1 for written, 0
// for older than what is there, or the error.
const script = `
local out, a = {}, 2
local function take() a = a + 1 return ARGV[a - 1] end
local function many(n) local t = {} for i = 1, n do t[i] = take() end return t end
for i = 1, #KEYS, 2 do
  local key, vkey, version, scope, op = KEYS[i], KEYS[i + 1], take(), take(), take()
  local cmds = {}
  if op == 'S' then
    cmds[1] = {'SET', key, take()}
  elseif op == 'H' then
    local set = many(2 * tonumber(take()))
    local del = many(tonumber(take()))
    if #set > 0 then cmds[#cmds + 1] = {'HSET', key, unpack(set)} end
    if #del > 0 then cmds[#cmds + 1] = {'HDEL', key, unpack(del)} end
  else
    cmds[1] = {'DEL', key}
  end
  local result, old = 1, version ~= '' and redis.pcall('GET', vkey)
  if type(old) == 'table' and old.err then
    result = old.err
  elseif old then
    local v, s = string.match(old, '^(%d+) (.*)$')
    if v and s == scope and (#v > #version or (#v == #version and v > version)) then result = 0 end
  end
  for _, c in ipairs(cmds) do
    if result == 1 then
      local r = redis.pcall(unpack(c))
      if type(r) == 'table' and r.err then result = r.err end
    end
  end
  if result == 1 and version ~= '' then
    redis.call('SET', vkey, version .. ' ' .. scope)
    if op == 'D' then redis.call('EXPIRE', vkey, ARGV[1]) end
  end
  out[#out + 1] = result
end
return out
`

// keepScript raises the number in KEYS[1] to ARGV[1] and returns what it is then: what an
// earlier attempt still says changes nothing.
const keepScript = `
local old, new = redis.call('GET', KEYS[1]), ARGV[1]
if old and (#old > #new or (#old == #new and old > new)) then return old end
redis.call('SET', KEYS[1], new)
return new
`

func sha(s string) string {
	h := sha1.Sum([]byte(s)) // as the server names scripts
	return hex.EncodeToString(h[:])
}

var scriptSHA, keepSHA = sha(script), sha(keepScript)
