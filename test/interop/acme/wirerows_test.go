package acme

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/apitest/jwstest"
)

// wireRow is a request, perhaps with others before it, and its name in the table.
type wireRow struct {
	name string
	send func(*talker) reply
}

const someOrder = `{"identifiers":[{"type":"dns","value":"a.example.com"}]}`

// wireRows returns all rows: the hostile messages of RFC 7515 and RFC 8555, and then
// what clients send, good and bad.
func wireRows(key jwstest.Key) []wireRow {
	return slices.Concat(hostileRows(key), transportRows, accountRows, orderRows(), finalizeRows(), certificateRows)
}

// hostileRows are the messages that our own parser is tested with, at new-order.
func hostileRows(key jwstest.Key) (rows []wireRow) {
	for _, name := range slices.Sorted(maps.Keys(jwstest.Bodies)) {
		rows = append(rows, wireRow{"body: " + name, func(c *talker) reply {
			url := c.urls["newOrder"]
			return c.send(http.MethodPost, url, c.key.Message(c.key.Header(c.to(url)), someOrder).In(jwstest.Bodies[name]))
		}})
	}
	for _, name := range slices.Sorted(maps.Keys(jwstest.Headers(key, jwstest.Request{}))) {
		rows = append(rows, wireRow{"header: " + name, func(c *talker) reply {
			to := c.to(c.urls["newOrder"])
			return c.send(http.MethodPost, to.URL, c.key.Message(jwstest.Headers(c.key, to)[name], someOrder).Body())
		}})
	}
	for _, alg := range jwstest.Algorithms {
		rows = append(rows, wireRow{"alg: " + alg, func(c *talker) reply { return c.post(c.urls["newOrder"], someOrder, `alg:"`+alg+`"`) }})
		rows = append(rows, wireRow{"alg at new-account: " + alg, func(c *talker) reply {
			return c.unknown().post(c.urls["newAccount"], `{"termsOfServiceAgreed":true}`, `alg:"`+alg+`"`)
		}})
	}
	for _, name := range slices.Sorted(maps.Keys(jwstest.Signatures(key, jwstest.Request{}, ""))) {
		rows = append(rows, wireRow{"signature: " + name, func(c *talker) reply {
			to := c.to(c.urls["newOrder"])
			m := c.key.Message(c.key.Header(to), someOrder)
			m.Signature = jwstest.Base64(string(jwstest.Signatures(c.key, to, someOrder)[name]))
			return c.send(http.MethodPost, to.URL, m.Body())
		}})
	}
	return rows
}

// changed returns a row of new-order with other headers.
func changed(name string, changes ...string) wireRow {
	return wireRow{name, func(c *talker) reply { return c.post(c.urls["newOrder"], someOrder, changes...) }}
}

// plain returns a row of a request without a message.
func plain(name, method, of string, headers ...string) wireRow {
	return wireRow{name, func(c *talker) reply {
		url := c.urls[of]
		if of == "directory" {
			url = c.directory
		}
		return c.send(method, url, "", headers...)
	}}
}

var transportRows = []wireRow{
	plain("GET of the directory", http.MethodGet, "directory"),
	plain("HEAD of the directory", http.MethodHead, "directory"),
	plain("DELETE of the directory", http.MethodDelete, "directory"),
	plain("GET of new-nonce", http.MethodGet, "newNonce"),
	plain("HEAD of new-nonce", http.MethodHead, "newNonce"),
	plain("PUT of new-nonce", http.MethodPut, "newNonce"),
	plain("GET of new-order", http.MethodGet, "newOrder"),
	plain("PUT of new-order", http.MethodPut, "newOrder"),
	plain("GET of new-account", http.MethodGet, "newAccount"),
	plain("GET of revoke-cert", http.MethodGet, "revokeCert"),
	plain("GET of key-change", http.MethodGet, "keyChange"),
	{"GET of the account", func(c *talker) reply { return c.send(http.MethodGet, c.account, "") }},
	{"an unknown path", func(c *talker) reply { return c.send(http.MethodGet, c.urls["newOrder"]+"/no-such-thing", "") }},
	{"media type application/json", func(c *talker) reply {
		return c.send(http.MethodPost, c.urls["newOrder"], c.signed(c.urls["newOrder"], someOrder), "Content-Type: application/json")
	}},
	{"media type with a parameter", func(c *talker) reply {
		return c.send(http.MethodPost, c.urls["newOrder"], c.signed(c.urls["newOrder"], someOrder), "Content-Type: application/jose+json; charset=utf-8")
	}},
	{"no User-Agent", func(c *talker) reply {
		return c.send(http.MethodPost, c.urls["newOrder"], c.signed(c.urls["newOrder"], someOrder), "User-Agent: ")
	}},
	{"a body of a megabyte", func(c *talker) reply {
		return c.send(http.MethodPost, c.urls["newOrder"], strings.Repeat(" ", 1<<20))
	}},
	changed("url of another host", `url:"https://evil.example/new-order"`),
	changed("nonce that no server made", `nonce:"bm9uY2U"`),
	changed("no nonce", "nonce:"),
	changed("an empty nonce", `nonce:""`),
	changed("a nonce that is no base64url", `nonce:"a+b/c="`),
	changed("kid of another host", `kid:"https://evil.example/acct/1"`),
	changed("kid that is no URL", `kid:"1"`),
	changed("jwk at new-order", "kid:", "jwk:$JWK"),
	{"a nonce twice", func(c *talker) reply {
		body := c.signed(c.urls["newOrder"], someOrder)
		c.send(http.MethodPost, c.urls["newOrder"], body)
		return c.send(http.MethodPost, c.urls["newOrder"], body)
	}},
	{"url with a query", func(c *talker) reply {
		return c.send(http.MethodPost, c.urls["newOrder"]+"?a=b", c.signed(c.urls["newOrder"], someOrder))
	}},
	{"kid of no account", func(c *talker) reply { return c.post(c.urls["newOrder"], someOrder, `kid:"`+c.account+`0"`) }},
	{"kid at new-account", func(c *talker) reply {
		return c.send(http.MethodPost, c.urls["newAccount"], c.key.Message(c.key.Header(c.to(c.urls["newAccount"])), "{}").Body())
	}},
	{"a weak key at new-account", func(c *talker) reply {
		o := c.unknown()
		weak, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			c.t.Fatal(err)
		}
		o.key = jwstest.Key{Signer: weak, Alg: "RS256"}
		return o.post(c.urls["newAccount"], `{"termsOfServiceAgreed":true}`)
	}},
}

// registering returns a row of new-account by a new key.
func registering(name, payload string) wireRow {
	return wireRow{name, func(c *talker) reply { return c.unknown().post(c.urls["newAccount"], payload) }}
}

// updating returns a row with a request to the URL of a new account.
func updating(name, payload string) wireRow {
	return wireRow{name, func(c *talker) reply { o := c.other(); return o.post(o.account, payload) }}
}

var accountRows = []wireRow{
	registering("new-account", `{"termsOfServiceAgreed":true}`),
	registering("new-account with a contact", `{"termsOfServiceAgreed":true,"contact":["mailto:a@example.com"]}`),
	registering("new-account without terms", `{}`),
	registering("new-account, only existing, unknown key", `{"onlyReturnExisting":true}`),
	registering("contact tel", `{"termsOfServiceAgreed":true,"contact":["tel:+1"]}`),
	registering("contact of two addresses", `{"termsOfServiceAgreed":true,"contact":["mailto:a@example.com,b@example.com"]}`),
	registering("contact with header fields", `{"termsOfServiceAgreed":true,"contact":["mailto:a@example.com?subject=x"]}`),
	registering("contact that is empty", `{"termsOfServiceAgreed":true,"contact":[""]}`),
	registering("contact that is no address", `{"termsOfServiceAgreed":true,"contact":["mailto:nobody"]}`),
	registering("contact that is no list", `{"termsOfServiceAgreed":true,"contact":"mailto:a@example.com"}`),
	registering("new-account, payload no JSON", `x`),
	registering("new-account, payload empty", ``),
	registering("new-account, payload an array", `[]`),
	registering("new-account, payload null", `null`),
	registering("new-account, a member twice", `{"termsOfServiceAgreed":true,"termsOfServiceAgreed":true}`),
	registering("external account binding that is no message", `{"termsOfServiceAgreed":true,"externalAccountBinding":{}}`),
	{"new-account again", func(c *talker) reply {
		o := c.unknown()
		o.register()
		o.account = ""
		return o.post(c.urls["newAccount"], `{}`)
	}},
	{"new-account, only existing", func(c *talker) reply {
		o := c.other()
		o.account = ""
		return o.post(c.urls["newAccount"], `{"onlyReturnExisting":true}`)
	}},
	updating("account, POST-as-GET", ``),
	updating("account, empty update", `{}`),
	updating("account, contact", `{"contact":["mailto:b@example.com"]}`),
	updating("account, bad contact", `{"contact":["tel:1"]}`),
	updating("account, status revoked", `{"status":"revoked"}`),
	updating("account, deactivated", `{"status":"deactivated"}`),
	{"new-order of a deactivated account", func(c *talker) reply {
		o := c.other()
		o.post(o.account, `{"status":"deactivated"}`)
		return o.post(c.urls["newOrder"], someOrder)
	}},
	{"new-account of a deactivated account", func(c *talker) reply {
		o := c.other()
		o.post(o.account, `{"status":"deactivated"}`)
		o.account = ""
		return o.post(c.urls["newAccount"], `{"termsOfServiceAgreed":true}`)
	}},
	{"account of another one", func(c *talker) reply { return c.other().post(c.account, ``) }},
	rolling("key-change", func(o *talker, next jwstest.Key) []string { return nil }),
	rolling("key-change, inner kid", func(o *talker, next jwstest.Key) []string { return []string{"jwk:", `kid:"` + o.account + `"`} }),
	rolling("key-change, inner url of another host", func(*talker, jwstest.Key) []string { return []string{`url:"https://evil.example/"`} }),
	rolling("key-change, inner nonce", func(*talker, jwstest.Key) []string { return []string{`nonce:"bm9uY2U"`} }),
	rolling("key-change, inner alg none", func(*talker, jwstest.Key) []string { return []string{`alg:"none"`} }),
	{"key-change, no message", func(c *talker) reply { o := c.other(); return o.post(c.urls["keyChange"], `{}`) }},
	{"key-change, the same key", func(c *talker) reply { o := c.other(); return o.roll(o.key, o.account, o.key.JWK()) }},
	{"key-change, another old key", func(c *talker) reply { o := c.other(); return o.roll(o.unknown().key, o.account, c.key.JWK()) }},
	{"key-change, another account", func(c *talker) reply { o := c.other(); return o.roll(o.unknown().key, c.account, o.key.JWK()) }},
	{"key-change, a key in use", func(c *talker) reply { o := c.other(); return o.roll(c.key, o.account, o.key.JWK()) }},
	{"the old key after key-change", func(c *talker) reply {
		o := c.other()
		o.roll(o.unknown().key, o.account, o.key.JWK())
		return o.post(o.account, ``)
	}},
	{"orders of the account", func(c *talker) reply {
		orders, _ := c.post(c.account, ``).object(c.t)["orders"].(string)
		return c.post(orders, ``)
	}},
}

// rolling returns a row of key-change with another inner header.
func rolling(name string, changes func(*talker, jwstest.Key) []string) wireRow {
	return wireRow{name, func(c *talker) reply {
		o := c.other()
		next := o.unknown().key
		return o.roll(next, o.account, o.key.JWK(), changes(o, next)...)
	}}
}

// roll sends key-change: the inner message names an account and an old key.
func (c *talker) roll(next jwstest.Key, account, oldKey string, changes ...string) reply {
	c.t.Helper()
	url := c.urls["keyChange"]
	header := next.Header(jwstest.Request{URL: url}, append([]string{"kid:", "nonce:", "jwk:$JWK"}, changes...)...)
	return c.post(url, next.Message(header, fmt.Sprintf(`{"account":%q,"oldKey":%s}`, account, oldKey)).Body())
}
