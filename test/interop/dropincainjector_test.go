package interop

import (
	"fmt"
	"strings"
	"testing"
)

// injectedKinds are the kinds into which cainjector writes.
var injectedKinds = []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations", "customresourcedefinitions", "apiservices"}

// caSources are the annotations that name the sources of a CA, and their values.
var caSources = [][2]string{
	{"cert-manager.io/inject-ca-from", "default/hook"},
	{"cert-manager.io/inject-ca-from-secret", "default/hook-ca"},
	{"cert-manager.io/inject-apiserver-ca", "true"},
}

// hookSources are a Certificate, and a Secret for direct injection that a Certificate owns.
const hookSources = `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: hook, namespace: default}
spec: {secretName: hook, dnsNames: [hook.example.com], privateKey: {algorithm: ECDSA}, issuerRef: {name: ca}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: hook-ca, namespace: default}
spec:
  secretName: hook-ca
  secretTemplate: {annotations: {cert-manager.io/allow-direct-injection: "true"}}
  dnsNames: [hook.example.com]
  privateKey: {algorithm: ECDSA}
  issuerRef: {name: self-signed}
`

// injected returns an object of each of injectedKinds, without CAs.
func injected(name, source, value string) (all []map[string]any) {
	service := map[string]any{"namespace": "default", "name": name, "path": "/hook"}
	metadata := func(name string) map[string]any {
		return map[string]any{"name": name, "annotations": map[string]string{source: value}}
	}
	webhooks := func() []any {
		var two []any
		for _, number := range []string{"one", "two"} {
			two = append(two, map[string]any{
				"name": number + ".hook.example.com", "clientConfig": map[string]any{"service": service}, "sideEffects": "None", "admissionReviewVersions": []string{"v1"},
			})
		}
		return two
	}
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		all = append(all, map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata(name), "webhooks": webhooks()})
	}
	group := name + ".example.com"
	return append(all, map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata("things." + group),
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
			"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": map[string]any{"service": service}, "conversionReviewVersions": []string{"v1"}}},
		},
	}, map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": metadata("v1.api." + group),
		"spec": map[string]any{
			"group": "api." + group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
			"service": map[string]any{"namespace": "default", "name": name},
		},
	})
}

// uninjected returns how many CAs are missing in the objects whose names have a part.
func (d *dropIn) uninjected(t *testing.T, part string) (missing int) {
	t.Helper()
	for _, kind := range injectedKinds {
		for name, object := range d.list(t, kind) {
			if !strings.Contains(name, part) {
				continue
			}
			for _, config := range clientConfigs(kind, object) {
				if bundle, _ := config["caBundle"].(string); bundle == "" {
					missing++
				}
			}
		}
	}
	return missing
}

// clientConfigs returns the parts of an object that have a CA.
func clientConfigs(kind string, object map[string]any) (all []map[string]any) {
	spec, _ := object["spec"].(map[string]any)
	switch kind {
	case "apiservices":
		if spec["service"] == nil { // the API itself makes one for each definition
			return nil
		}
		return []map[string]any{spec}
	case "customresourcedefinitions":
		return []map[string]any{spec["conversion"].(map[string]any)["webhook"].(map[string]any)["clientConfig"].(map[string]any)}
	}
	for _, webhook := range object["webhooks"].([]any) {
		all = append(all, webhook.(map[string]any)["clientConfig"].(map[string]any))
	}
	return all
}

// injectedObjects is how many objects of each kind get a CA from cert-manager.
const injectedObjects = 8

// injectedTurn returns one object of each kind, with the source of its turn.
func injectedTurn(i int) []map[string]any {
	source := caSources[i%len(caSources)]
	return injected(fmt.Sprintf("injected-%d", i), source[0], source[1])
}

// startInjected has cert-manager write CAs into objects of each kind, and returns it running.
func (d *dropIn) startInjected(t *testing.T) *process {
	t.Helper()
	ready := d.ready(t)
	d.apply(t, hookSources)
	eventually(t, "the sources have CAs", func() bool { return d.ready(t) == ready+2 })
	d.keysCleaned(t)
	for i := range injectedObjects {
		d.createAll(t, injectedTurn(i)...)
	}
	p := d.cainjector(t)
	eventually(t, "cert-manager has injected all CAs", func() bool { return d.uninjected(t, "injected-") == 0 })
	return p
}

func (d *dropIn) cainjector(t *testing.T, args ...string) *process {
	t.Helper()
	return d.measured(t, "cert-manager-cainjector", "cert-manager-cainjector", args...)
}

// injects creates an object of each kind, and waits until it has its CA.
func (d *dropIn) injects(t *testing.T, who string) {
	t.Helper()
	name := newcomer(who)
	d.createAll(t, injected(name, caSources[0][0], caSources[0][1])...)
	eventually(t, who+" injects into new objects", func() bool { return d.uninjected(t, name) == 0 })
}

// certplane takes over the objects with CAs of cert-manager's cainjector, and gives them back
// unwritten.
func TestDropInCAInjector(t *testing.T) {
	d := startDropIn(t, "issuers,certificaterequests,certificaterequests-approver,certificates,cainjector")
	controller := d.startFleet(t, fleet{})
	stop(t, d.startInjected(t), controller)
	d.thereAndBack(t, injectedKinds, func(who string) { d.injects(t, who) }, func() *process { return d.cainjector(t) })
}
