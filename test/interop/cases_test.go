package interop

import (
	"net/http"
	"strings"
)

// step is one update of an object.
type step struct {
	name        string
	subresource string
	edit        func(object map[string]any)
	user        string
}

type condition struct{ kind, status, reason string }

// conditions replaces an object's conditions.
func conditions(list ...condition) func(map[string]any) {
	return func(object map[string]any) {
		all := []any{}
		for _, c := range list {
			all = append(all, map[string]any{"type": c.kind, "status": c.status, "reason": c.reason})
		}
		object["status"].(map[string]any)["conditions"] = all
	}
}

func certificate(text string) func(map[string]any) {
	return func(object map[string]any) { object["status"].(map[string]any)["certificate"] = encode(text) }
}

func metadata(field string, value any) func(map[string]any) {
	return func(object map[string]any) { object["metadata"].(map[string]any)[field] = value }
}

func nothing(map[string]any) {}

// life takes a request from pending to issued, with everything that must be
// refused on the way.
func (f fixture) life() []step {
	approved := condition{"Approved", "True", "x"}
	denied := condition{"Denied", "True", ""}
	return []step{
		{name: "no change", edit: nothing},
		{name: "spec", edit: func(o map[string]any) { o["spec"].(map[string]any)["signerName"] = "other.com/x" }},
		{name: "conditions by the main endpoint", edit: conditions(approved)},
		{name: "uid", edit: metadata("uid", "x")},
		{name: "stale version", edit: metadata("resourceVersion", "1")},
		{name: "bad version", edit: metadata("resourceVersion", "x")},
		{name: "no version", edit: metadata("resourceVersion", "")},
		{name: "approve by status", subresource: "/status", edit: conditions(approved)},
		{name: "deny by status", subresource: "/status", edit: conditions(denied)},
		{name: "both by status", subresource: "/status", edit: conditions(approved, denied)},
		{name: "empty condition", subresource: "/status", edit: conditions(condition{})},
		{name: "odd status", subresource: "/status", edit: conditions(condition{"Foo", "Maybe", ""})},
		{name: "not failed", subresource: "/status", edit: conditions(condition{"Failed", "False", ""})},
		{name: "twice the same", subresource: "/approval", edit: conditions(condition{"Foo", "True", ""}, condition{"Foo", "True", ""})},
		{name: "both", subresource: "/approval", edit: conditions(approved, denied)},
		{name: "both and again", subresource: "/approval", edit: conditions(denied, approved, approved)},
		{name: "no PEM", subresource: "/status", edit: certificate("x")},
		{name: "another label", subresource: "/status", edit: certificate(strings.ReplaceAll(selfSigned, "CERTIFICATE", "PRIVATE KEY"))},
		{name: "headers", subresource: "/status", edit: certificate(strings.Replace(selfSigned, "E-----\n", "E-----\nA: b\n\n", 1))},
		{name: "empty block", subresource: "/status", edit: certificate("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")},
		{name: "certificate by approval", subresource: "/approval", edit: certificate(selfSigned)},
		{name: "certificate by the main endpoint", edit: certificate(selfSigned)},
		{name: "approve by a stranger", subresource: "/approval", edit: conditions(approved), user: "mallory"},
		{name: "approve", subresource: "/approval", edit: conditions(approved)},
		{name: "take back", subresource: "/approval", edit: conditions()},
		{name: "take back by status", subresource: "/status", edit: conditions()},
		{name: "reword", subresource: "/approval", edit: conditions(condition{"Approved", "True", "y"})},
		{name: "reword by status", subresource: "/status", edit: conditions(condition{"Approved", "True", "z"})},
		{name: "deny too", subresource: "/approval", edit: conditions(approved, denied)},
		{name: "issue", subresource: "/status", edit: certificate("text\n" + selfSigned + "text")},
		{name: "issue again", subresource: "/status", edit: certificate(selfSigned)},
		{name: "take the certificate back", subresource: "/status", edit: certificate("")},
	}
}

// calls are requests of any other kind. They run last and do not change "life".
func (f fixture) calls() map[string]call {
	const life = csrs + "/life"
	review := func(kind string, spec map[string]any) call {
		return call{method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/" + strings.ToLower(kind) + "s",
			body: map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}}
	}
	rights := map[string]any{"verb": "get", "resource": "x"}
	patch := func(subresource, kind, body string) call {
		return call{method: http.MethodPatch, path: life + subresource, contentType: "application/" + kind, body: body}
	}
	return map[string]call{
		"get":                    {method: http.MethodGet, path: life},
		"get what is not there":  {method: http.MethodGet, path: csrs + "/nosuch"},
		"get approval":           {method: http.MethodGet, path: life + "/approval"},
		"no such subresource":    {method: http.MethodGet, path: life + "/nosuch"},
		"table":                  {method: http.MethodGet, path: life, accept: table},
		"table of approval":      {method: http.MethodGet, path: life + "/approval", accept: table},
		"selector":               {method: http.MethodGet, path: csrs + "?fieldSelector=spec.signerName%3Dno.such/x"},
		"unknown selector":       {method: http.MethodGet, path: csrs + "?fieldSelector=spec.username%3Dx"},
		"bad limit":              {method: http.MethodGet, path: csrs + "?limit=x"},
		"bad continue":           {method: http.MethodGet, path: csrs + "?continue=x"},
		"put what is not there":  {method: http.MethodPut, path: csrs + "/nosuch", body: f.csr("nosuch", nil)},
		"put under another name": {method: http.MethodPut, path: life, body: f.csr("other", nil)},
		"exists":                 {method: http.MethodPost, path: csrs, body: f.csr("life", nil)},
		"post to an object":      {method: http.MethodPost, path: life, body: f.csr("life", nil)},
		"dry run":                {method: http.MethodPost, path: csrs + "?dryRun=All", body: f.csr("dry", nil)},
		"bad dry run":            {method: http.MethodPost, path: csrs + "?dryRun=x", body: f.csr("dry", nil)},
		"strict":                 {method: http.MethodPost, path: csrs + "?fieldValidation=Strict", body: f.csr("strict", map[string]any{"foo": 1})},
		"not JSON":               {method: http.MethodPost, path: csrs, body: "{"},
		"unknown format":         {method: http.MethodPost, path: csrs, body: "x", contentType: "text/plain"},
		"merge patch":            patch("", "merge-patch+json", `{"metadata":{"annotations":{"a":"b"}}}`),
		"status patch":           patch("/status", "strategic-merge-patch+json", `{"status":{"conditions":[{"type":"X","status":"True"}]}}`),
		"bad JSON patch":         patch("", "json-patch+json", `[{"op":"bad"}]`),
		"no JSON patch":          patch("", "json-patch+json", `{}`),
		"unknown patch":          patch("", "foo", `x`),
		"forbidden list":         {method: http.MethodGet, path: csrs, user: "mallory"},
		"forbidden create":       {method: http.MethodPost, path: csrs, body: f.csr("mine", nil), user: "mallory"},
		"delete with finalizers": {method: http.MethodDelete, path: csrs + "/metadata-good-finalizers"},
		"delete":                 {method: http.MethodDelete, path: csrs + "/spec-600-seconds"},
		"delete the absent":      {method: http.MethodDelete, path: csrs + "/nosuch"},
		"who am I": {method: http.MethodPost, path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", user: "bob",
			body: map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}},
		"may I":           review("SelfSubjectAccessReview", map[string]any{"resourceAttributes": rights}),
		"may he":          review("SubjectAccessReview", map[string]any{"user": "bob", "resourceAttributes": rights}),
		"may a master":    review("SubjectAccessReview", map[string]any{"user": "bob", "groups": []string{"system:masters"}, "resourceAttributes": rights}),
		"may he look":     review("SubjectAccessReview", map[string]any{"user": "bob", "groups": []string{"system:authenticated"}, "nonResourceAttributes": map[string]any{"path": "/openapi/v3", "verb": "get"}}),
		"binding table":   {method: http.MethodGet, path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-admin"},
		"cluster-admin":   {method: http.MethodGet, path: "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin"},
		"approver role":   {method: http.MethodGet, path: "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:certificates.k8s.io:kubelet-serving-approver"},
		"controller role": {method: http.MethodGet, path: "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:controller:certificate-controller"},
	}
}

// selfSigned is any certificate. Its key no longer exists.
const selfSigned = `-----BEGIN CERTIFICATE-----
MIIBjjCCATOgAwIBAgIUAzX7lC6yELvr4Vttqyn1jCU3MMIwCgYIKoZIzj0EAwIw
GzEZMBcGA1UEAwwQc29tZSBjZXJ0aWZpY2F0ZTAgFw0yNjExMjAxMzM1MjZaGA8y
MTI2MTAyNzEzMzUyNlowGzEZMBcGA1UEAwwQc29tZSBjZXJ0aWZpY2F0ZTBZMBMG
ByqGSM49AgEGCCqGSM49AwEHA0IABEfJA2NAFB6mTOKFk/fSVYjI/F8wFetulMBQ
CPCB44UCpWwvHGTyuUL7Xngqy7QnSOQjmGx0o1qqsXYE73lZAf6jUzBRMB0GA1Ud
DgQWBBSG8cAGCftfipYma0AmIar0TahzHzAfBgNVHSMEGDAWgBSG8cAGCftfipYm
a0AmIar0TahzHzAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQDQ
OWXWSY6si/XIywamDVhwVVNQpO3ldUs/a6eAD1BbpgIhAMfPXKECvmx5fD9Cnywt
Yxfrmt4gXKcegLhV7qKX0MY2
-----END CERTIFICATE-----
`
