package lean_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	certificates = "/apis/GROUP/v1/namespaces/default/certificates"
	certificate  = `{"apiVersion":"GROUP/v1","kind":"Certificate","metadata":{"name":"NAME"META},"spec":{SPEC}STATUS}`
	spec         = `"secretName":"web","dnsNames":["web.example.com"],"issuerRef":{"name":"ca"}`

	mergePatch = "application/merge-patch+json"
	jsonPatch  = "application/json-patch+json"
	applyPatch = "application/apply-patch+yaml"
	tables     = "application/json;as=Table;v=v1;g=meta.k8s.io"
	partial    = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
)

// crt returns a Certificate.
func crt(name, spec string) string { return with(name, spec, "", "") }

func with(name, spec, meta, status string) string {
	if meta != "" {
		meta = "," + meta
	}
	if status != "" {
		status = `,"status":` + status
	}
	return strings.NewReplacer("NAME", name, "META", meta, "SPEC", spec, "STATUS", status).Replace(certificate)
}

// TestServer compares what is served with what the library serves for the same
// definitions in another group.
func TestServer(t *testing.T) {
	t.Parallel()
	w := start(t)
	lean, library := &twin{world: w, group: leanGroup}, &twin{world: w, group: libraryGroup}
	t.Run("conversation", func(t *testing.T) { w.compare(t, lean, library, conversation()) })
	t.Run("store", func(t *testing.T) { w.testStored(t, lean, library) })
	t.Run("webhook", func(t *testing.T) { w.testWebhook(t, lean, library) })
	t.Run("definition", func(t *testing.T) { w.testDefinition(t, lean, library) })
}

// compare says the same to both.
func (w *world) compare(t *testing.T, lean, library *twin, calls []call) {
	for _, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			got, want := comparable(lean.say(t, c)), comparable(library.say(t, c))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %s: the answer differs from the library's (-library +lean):\n%s", c.method, c.path, diff)
			}
			if strings.HasPrefix(c.name, "ok ") != (want["code"].(int) < 300) {
				t.Errorf("%s %s: the library answered %v", c.method, c.path, want)
			}
		})
	}
}

// conversation is told in order. A name says whether the call succeeds.
func conversation() []call {
	var all []call
	for _, part := range [][]call{creations(), updates(), statusUpdates(), patches(), applications(), reads(), deletions(), issuers()} {
		all = append(all, part...)
	}
	return all
}

func post(name, body string, query ...string) call {
	return call{name: name, method: http.MethodPost, path: certificates + strings.Join(query, ""), body: body, format: "application/json"}
}

func creations() []call {
	explicit := `"secretName":"web","isCA":false,"dnsNames":[],"usages":null,"commonName":"","duration":"2160h","privateKey":{},"subject":{"organizations":["a<b&c>"]},"issuerRef":{"name":"ca","kind":""}`
	unknown := spec + `,"surprise":1,"privateKey":{"size":256,"shape":"round"}`
	return []call{
		post("ok create", crt("a", spec)),
		post("ok what is empty stays", crt("explicit", explicit)),
		post("ok the status is dropped", with("status", spec, "", `{"revision":3}`)),
		post("ok unknown fields are dropped", crt("unknown", unknown), "?fieldValidation=Ignore"),
		post("ok unknown fields are warned about", crt("warned", unknown), "?fieldValidation=Warn"),
		post("refused: unknown fields", crt("strict", unknown), "?fieldValidation=Strict"),
		post("refused: unknown metadata", with("strict", spec, `"surprise":1`, ""), "?fieldValidation=Strict"),
		post("ok unknown metadata", with("meta", spec, `"surprise":1,"labels":{"b":"1","a":"2"}`, ""), "?fieldValidation=Warn"),
		post("refused: a field twice", crt("strict", spec+`,"secretName":"b"`), "?fieldValidation=Strict"),
		post("ok a field twice", crt("twice", spec+`,"secretName":"b"`), "?fieldValidation=Warn"),
		post("refused: unknown at the root", strings.Replace(crt("root", spec), `"spec"`, `"speck":{},"spec"`, 1), "?fieldValidation=Strict"),
		post("ok unknown at the root", strings.Replace(crt("root", spec), `"spec"`, `"speck":{},"spec"`, 1)),
		post("refused: exists", crt("a", spec)),
		post("refused: no secret", crt("wrong", `"issuerRef":{"name":"ca"}`)),
		post("refused: much", crt("wrong", `"dnsNames":"x","issuerRef":{"name":1},"isCA":"yes","privateKey":{"algorithm":"DSA","size":"big"}`)),
		post("refused: a value that is not known", crt("wrong", spec+`,"usages":["signing","fun"]`)),
		post("refused: another kind", strings.Replace(crt("wrong", spec), `"Certificate"`, `"Issuer"`, 1)),
		post("refused: another version", strings.Replace(crt("wrong", spec), `/v1"`, `/v1alpha2"`, 1)),
		post("refused: no kind", strings.Replace(crt("wrong", spec), `"kind":"Certificate",`, ``, 1)),
		post("refused: no version", strings.Replace(crt("wrong", spec), `"apiVersion":"GROUP/v1",`, ``, 1)),
		post("ok no spec", `{"apiVersion":"GROUP/v1","kind":"Certificate","metadata":{"name":"bare"}}`),
		post("ok spec is null", `{"apiVersion":"GROUP/v1","kind":"Certificate","metadata":{"name":"null"},"spec":null}`),
		post("refused: spec is text", `{"apiVersion":"GROUP/v1","kind":"Certificate","metadata":{"name":"wrong"},"spec":"web"}`),
		post("refused: metadata is text", `{"apiVersion":"GROUP/v1","kind":"Certificate","metadata":"wrong","spec":{}}`),
		post("refused: no JSON", `{"apiVersion":`),
		post("refused: a list", `[]`),
		post("refused: a bad name", crt("Wrong_Name", spec)),
		post("refused: a bad label", with("wrong", spec, `"labels":{"a b":"c"}`, "")),
		post("refused: a label that is no text", with("wrong", spec, `"labels":{"a":1}`, "")),
		post("refused: another namespace", with("wrong", spec, `"namespace":"kube-system"`, "")),
		post("refused: no such namespace", crt("wrong", spec), "/../../../namespaces/nowhere/certificates"),
		post("refused: a resource version", with("wrong", spec, `"resourceVersion":"1"`, "")),
		post("ok finalizers are warned about", with("final", spec, `"finalizers":["a.example.com","b","c.example.com/d"]`, "")),
		post("ok a dry run", crt("dry", spec), "?dryRun=All"),
		{name: "refused: dry run only", path: certificates + "/dry"},
		{name: "ok YAML", method: http.MethodPost, path: certificates, format: "application/yaml",
			body: "apiVersion: GROUP/v1\nkind: Certificate\nmetadata: {name: yaml}\nspec: {secretName: web, renewBefore: 24h, issuerRef: {name: ca}}\n"},
		{name: "refused: unknown fields in YAML", method: http.MethodPost, path: certificates + "?fieldValidation=Strict", format: "application/yaml",
			body: "apiVersion: GROUP/v1\nkind: Certificate\nmetadata: {name: yaml2}\nspec: {secretName: web, surprise: 1, issuerRef: {name: ca}}\n"},
		{name: "refused: protobuf", method: http.MethodPost, path: certificates, format: "application/vnd.kubernetes.protobuf", body: "k8s\x00"},
		{name: "refused: CBOR that is none", method: http.MethodPost, path: certificates, format: "application/cbor", body: "\xd9\xd9\xf7\xff"},
		{name: "refused: HTML", method: http.MethodPost, path: certificates, format: "text/html", body: "<p>"},
		{name: "refused: to POST an object", method: http.MethodPost, path: certificates + "/a", format: "application/json", body: crt("a", spec)},
	}
}

func put(name, object, body string, query ...string) call {
	return call{name: name, method: http.MethodPut, path: certificates + "/" + object + strings.Join(query, ""), body: body, format: "application/json"}
}

func updates() []call {
	const current = `"resourceVersion":"VERSION"`
	return []call{
		post("ok create for updates", crt("up", spec)),
		put("ok nothing changes", "up", with("up", spec, current, "")),
		put("ok a label changes", "up", with("up", spec, current+`,"labels":{"a":"b"}`, "")),
		put("ok the spec changes", "up", with("up", spec+`,"commonName":"up"`, current, "")),
		put("ok the status is ignored", "up", with("up", spec+`,"commonName":"up"`, current, `{"revision":3}`)),
		put("ok null and empty lists are equal", "up", with("up", spec+`,"commonName":"up","usages":[]`, current, "")),
		put("refused: no resource version", "up", crt("up", spec)),
		put("refused: an old resource version", "up", with("up", spec, `"resourceVersion":"1"`, "")),
		put("refused: another name", "up", with("down", spec, current, "")),
		put("refused: does not exist", "nobody", crt("nobody", spec)),
		put("refused: invalid", "up", with("up", spec+`,"privateKey":{"algorithm":"DSA"}`, current, "")),
		put("refused: unknown fields", "up", with("up", spec+`,"surprise":1`, current, ""), "?fieldValidation=Strict"),
		{name: "ok get after updates", path: certificates + "/up"},
	}
}

const ready = `{"type":"Ready","status":"True","reason":"Issued","message":"all's well"}`

func statusUpdates() []call {
	const current = `"resourceVersion":"VERSION"`
	return []call{
		post("ok create for the status", crt("st", spec)),
		put("ok the status", "st/status", with("st", spec, current, `{"conditions":[`+ready+`],"revision":1,"notAfter":"2035-01-02T03:04:05+02:00"}`)),
		put("ok spec and metadata are ignored", "st/status", with("st", `"secretName":"other"`, current+`,"labels":{"a":"b"}`, `{"conditions":[`+ready+`],"revision":2,"surprise":1}`)),
		put("ok no status", "st/status", with("st", spec, current, "")),
		put("refused: a condition twice", "st/status", with("st", spec, current, `{"conditions":[`+ready+`,`+ready+`]}`)),
		put("refused: an invalid status", "st/status", with("st", spec, current, `{"conditions":[{"type":"Ready","status":"Maybe"}],"revision":"x"}`)),
		put("refused: an old version", "st/status", with("st", spec, `"resourceVersion":"1"`, `{"revision":3}`)),
		put("refused: no object", "nobody/status", crt("nobody", spec)),
		{name: "ok get the status", path: certificates + "/st/status"},
		{name: "refused: scale", path: certificates + "/st/scale"},
		{name: "refused: approval", method: http.MethodPut, path: certificates + "/st/approval", body: "{}", format: "application/json"},
		{name: "refused: to DELETE the status", method: http.MethodDelete, path: certificates + "/st/status"},
	}
}

func patch(name, object, format, body string, query ...string) call {
	return call{name: name, method: http.MethodPatch, path: certificates + "/" + object + strings.Join(query, ""), body: body, format: format}
}

func patches() []call {
	return []call{
		post("ok create for patches", crt("pa", spec)),
		patch("ok merge", "pa", mergePatch, `{"metadata":{"annotations":{"a":"b"}},"spec":{"commonName":"pa","isCA":false}}`),
		patch("ok merge nothing", "pa", mergePatch, `{}`),
		patch("ok merge the status", "pa/status", mergePatch, `{"spec":{"commonName":"ignored"},"status":{"conditions":[`+ready+`]}}`),
		patch("ok merge null", "pa", mergePatch, `{"spec":{"commonName":null}}`),
		patch("refused: merge nonsense", "pa", mergePatch, `{"spec":{"secretName":null}}`),
		patch("refused: merge unknown", "pa", mergePatch, `{"spec":{"surprise":1}}`, "?fieldValidation=Strict"),
		patch("ok merge unknown", "pa", mergePatch, `{"spec":{"surprise":1}}`, "?fieldValidation=Warn"),
		patch("ok JSON patch", "pa", jsonPatch, `[{"op":"test","path":"/spec/secretName","value":"web"},{"op":"add","path":"/spec/dnsNames/-","value":"b.example.com"}]`),
		patch("refused: a JSON patch whose test fails", "pa", jsonPatch, `[{"op":"test","path":"/spec/secretName","value":"b"}]`),
		patch("refused: strategic merge patch", "pa", "application/strategic-merge-patch+json", `{}`),
		patch("refused: patch of nothing", "nobody", mergePatch, `{"spec":{}}`),
		patch("refused: a patch that is no JSON", "pa", mergePatch, `{`),
		patch("refused: patch with an old version", "pa", mergePatch, `{"metadata":{"resourceVersion":"1"},"spec":{"commonName":"x"}}`),
	}
}

func applications() []call {
	applied := func(fields string) string {
		return `{"apiVersion":"GROUP/v1","kind":"Certificate","metadata":{"name":"ap"},` + fields + `}`
	}
	full := `"spec":{` + spec + `,"duration":"2160h"}`
	return []call{
		patch("ok apply creates", "ap", applyPatch, applied(full), "?fieldManager=one"),
		patch("ok apply again", "ap", applyPatch, applied(full), "?fieldManager=one"),
		patch("ok apply a change", "ap", applyPatch, applied(`"spec":{`+spec+`,"usages":["signing"]}`), "?fieldManager=one"),
		patch("refused: a conflict", "ap", applyPatch, applied(`"spec":{"secretName":"other","issuerRef":{"name":"ca"}}`), "?fieldManager=two"),
		patch("ok apply by force", "ap", applyPatch, applied(`"spec":{"secretName":"other","issuerRef":{"name":"ca"}}`), "?fieldManager=two&force=true"),
		patch("refused: apply unknown fields", "ap", applyPatch, applied(`"spec":{"surprise":1}`), "?fieldManager=three"),
		patch("refused: apply without a manager", "ap", applyPatch, applied(full)),
		patch("refused: apply managed fields", "ap", applyPatch, strings.Replace(applied(full), `"name":"ap"`, `"name":"ap","managedFields":[]`, 1)+" ", "?fieldManager=one&force=maybe"),
		patch("refused: apply something invalid", "ap", applyPatch, applied(`"spec":{"privateKey":{"algorithm":"DSA"}}`), "?fieldManager=four"),
		patch("refused: apply another version", "ap", applyPatch, strings.Replace(applied(full), "/v1", "/v2", 1), "?fieldManager=one"),
		patch("ok apply the status", "ap/status", applyPatch, applied(`"status":{"conditions":[`+ready+`]}`), "?fieldManager=status"),
		patch("ok apply another condition", "ap/status", applyPatch, applied(`"status":{"conditions":[{"type":"Issuing","status":"True"}]}`), "?fieldManager=other"),
		patch("ok apply nothing", "ap/status", applyPatch, applied(`"status":{}`), "?fieldManager=other"),
		{name: "ok get what was applied", path: certificates + "/ap"},
	}
}

func reads() []call {
	all := "/apis/GROUP/v1/certificates"
	return []call{
		{name: "ok list", path: certificates},
		{name: "ok list of all namespaces", path: all},
		{name: "ok list of an empty namespace", path: "/apis/GROUP/v1/namespaces/kube-system/certificates"},
		{name: "ok list from the cache", path: certificates + "?resourceVersion=0"},
		{name: "ok list a part", path: certificates + "?limit=2"},
		{name: "refused: a bad token", path: certificates + "?limit=2&continue=x"},
		{name: "ok list by field", path: certificates + "?fieldSelector=spec.issuerRef.name%3Dca,metadata.name!%3Da"},
		{name: "ok list by a field that no object has", path: certificates + "?fieldSelector=spec.issuerRef.group%3D"},
		{name: "refused: a field that is not selectable", path: certificates + "?fieldSelector=spec.secretName%3Dweb"},
		{name: "ok list by label", path: certificates + "?labelSelector=a%3Db"},
		{name: "ok pretty", path: certificates + "/a?pretty=true"},
		{name: "ok get as YAML", path: certificates + "/a", accept: "application/yaml"},
		{name: "refused: get as protobuf", path: certificates + "/a", accept: "application/vnd.kubernetes.protobuf"},
		{name: "refused: get as HTML", path: certificates + "/a", accept: "text/html"},
		{name: "ok get as a table", path: certificates + "/a", accept: tables},
		{name: "ok list as a table", path: certificates, accept: tables},
		{name: "ok list as a table of objects", path: certificates + "?includeObject=Object", accept: tables},
		{name: "ok get metadata", path: certificates + "/ap", accept: partial},
		{name: "ok list metadata", path: certificates, accept: strings.Replace(partial, "Metadata", "MetadataList", 1)},
		{name: "ok get metadata as protobuf", path: certificates + "/a", accept: strings.Replace(partial, "json", "vnd.kubernetes.protobuf", 1)},
		{name: "refused: get nothing", path: certificates + "/nobody"},
		{name: "refused: another version", path: "/apis/GROUP/v2/namespaces/default/certificates"},
		{name: "refused: no namespace", path: all + "/a"},
		{name: "ok watch", path: certificates + "?watch=true&timeoutSeconds=1&resourceVersion=0"},
		{name: "ok watch by field", path: certificates + "?watch=true&timeoutSeconds=1&resourceVersion=0&fieldSelector=spec.issuerRef.name%3Dnobody"},
		{name: "ok watch as a table", path: certificates + "?watch=true&timeoutSeconds=1&resourceVersion=0", accept: tables},
		{name: "ok watch metadata", path: certificates + "?watch=true&timeoutSeconds=1&resourceVersion=0", accept: partial},
		{name: "ok watch a list", path: certificates + "?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"},
	}
}

func deletions() []call {
	remove := func(name, object, body string) call {
		return call{name: name, method: http.MethodDelete, path: certificates + "/" + object, body: body, format: "application/json"}
	}
	return []call{
		remove("refused: delete nothing", "nobody", ""),
		remove("refused: delete another", "a", `{"preconditions":{"uid":"x"}}`),
		remove("refused: delete with nonsense", "a", `{"propagationPolicy":"x"}`),
		remove("ok delete in a dry run", "a?dryRun=All", ""),
		remove("ok delete", "a", `{"propagationPolicy":"Background"}`),
		remove("ok delete in the foreground", "up", `{"propagationPolicy":"Foreground"}`),
		remove("ok delete with finalizers", "final", ""),
		patch("refused: a finalizer of something that is being deleted", "final", mergePatch, `{"metadata":{"finalizers":["a.example.com","b","new.example.com/c"]}}`),
		patch("ok remove the finalizers", "final", mergePatch, `{"metadata":{"finalizers":null}}`),
		{name: "refused: it is gone", path: certificates + "/final"},
		{name: "ok delete some", method: http.MethodDelete, path: certificates + "?labelSelector=a"},
		{name: "ok the rest", path: certificates},
	}
}
