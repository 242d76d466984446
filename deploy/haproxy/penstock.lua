-- http-request lua.penstock asks Penstock whether a request may pass, and denies it if not. http-response
-- lua.penstock_report reports the status of the response to the rules that decide by it.
--
-- To cache denials, use http-request lua.penstock_ask and lua.penstock_deny instead, with a stick table in between:
-- see docs/how-to/cache-denials.md.

-- The section `listen penstock` of haproxy.cfg forwards the check to a node. All denials have status 429, with the
-- actual status in a header. This distinguishes them from HAProxy's own responses while no node answers.
local url = "http://127.0.0.1:8089/v1/auth?deny_status=429"
local report_url = "http://127.0.0.1:8089/v1/report"

local fail_open = true -- while no node answers, all requests pass; false: none does

-- Headers of the client that are not passed on: the proxy sets them, or they belong to a body, which is not sent.
local own = {
    ["x-forwarded-uri"] = true, ["x-forwarded-method"] = true, ["x-forwarded-host"] = true,
    ["x-forwarded-for"] = true, ["forwarded"] = true, ["x-original-uri"] = true,
    ["x-original-url"] = true, ["x-original-method"] = true, ["host"] = true,
    ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true,
    ["expect"] = true, ["upgrade"] = true, ["te"] = true, ["trailer"] = true,
    ["x-penstock-cache-key"] = true,
}

-- Headers of a denial that the client receives.
local told = { "content-type", "cache-control", "retry-after", "ratelimit", "ratelimit-policy" }

local function question(txn)
    local headers = {}
    for name, values in pairs(txn.http:req_get_headers()) do
        if not own[name] then
            local list = {}
            for i = 0, #values do
                list[#list + 1] = values[i]
            end
            headers[name] = list
        end
    end
    headers["x-forwarded-uri"] = { txn.sf:pathq() }
    headers["x-forwarded-method"] = { txn.sf:method() }
    headers["x-forwarded-host"] = { txn.sf:req_fhdr("host") }
    headers["x-forwarded-for"] = { txn.sf:src() }
    return headers
end

local function first(answer, name)
    local values = answer.headers[name]
    return values and values[0]
end

-- ask returns the response for the client of a denied request, and Penstock's answer.
local function ask(txn, url, headers)
    local answer = core.httpclient():get({ url = url, headers = headers })
    if not answer or answer.status == 0 or answer.status >= 500 then
        if not fail_open then
            return txn:reply({ status = 503 })
        end
        return
    end
    if answer.status == 200 then
        if first(answer, "ratelimit") then
            txn:set_var("txn.penstock_limit", first(answer, "ratelimit"))
            txn:set_var("txn.penstock_policy", first(answer, "ratelimit-policy"))
        end
        txn:set_var("txn.penstock_reservation", first(answer, "x-penstock-reservation") or "")
        return
    end
    local status = tonumber(first(answer, "x-penstock-status")) or answer.status
    local reply = txn:reply({ status = status, body = answer.body })
    for _, name in ipairs(told) do
        local value = first(answer, name)
        if value then
            reply:add_header(name, value)
        end
    end
    return reply, answer
end

core.register_action("penstock", { "http-req" }, function(txn)
    local reply = ask(txn, url, question(txn))
    if reply then
        txn:done(reply)
    end
end, 0)

-- penstock_ask ATTRIBUTES asks, and tells Penstock that the stick table's key consists of the attributes, whose values
-- are in txn.penstock_key. For a denial that can be cached, it sets txn.penstock_until and txn.penstock_retry.
core.register_action("penstock_ask", { "http-req" }, function(txn, attributes)
    local headers = question(txn)
    headers["x-penstock-cache-key"] = { txn:get_var("txn.penstock_key") }
    local reply, answer = ask(txn, url .. "&cache_by=" .. attributes, headers)
    if not reply then
        return
    end
    txn:set_priv(reply)
    txn:set_var("txn.penstock_denied", 1)
    local expires = answer and tonumber(first(answer, "x-accel-expires"))
    if expires and first(answer, "x-penstock-status") == "429" then
        txn:set_var("txn.penstock_until", core.now().sec + expires)
        txn:set_var("txn.penstock_retry", tonumber(first(answer, "retry-after")) or 0)
    end
end, 1)

-- penstock_deny sends the response of a denied request.
core.register_action("penstock_deny", { "http-req" }, function(txn)
    txn:done(txn:get_priv())
end, 0)

core.register_action("penstock_report", { "http-res" }, function(txn)
    local reservation = txn:get_var("txn.penstock_reservation")
    if not reservation or reservation == "" then
        return
    end
    core.httpclient():post({
        url = report_url,
        headers = { ["content-type"] = { "application/json" } },
        body = '{"reservation":"' .. reservation .. '","status":' .. txn.f:status() .. "}",
    })
end, 0)
