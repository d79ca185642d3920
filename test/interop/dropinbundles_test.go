package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// bundleKinds are the kinds that a takeover of trust-manager must not write.
var bundleKinds = []string{"bundles", "configmaps", "secrets"}

// teams are the namespaces that Bundles write to, with their labels.
var teams = map[string]map[string]string{
	"team-a": {"trust": "yes"}, "team-b": {"trust": "yes", "zone": "east"}, "team-c": {"zone": "east"}, "team-d": {"zone": "west"},
}

// randomBundles makes Bundles with what users can write in them.
type randomBundles struct {
	*rand.Rand
	cas []string // in PEM
}

func newRandomBundles(t *testing.T, seed uint64) *randomBundles {
	t.Helper()
	r := &randomBundles{Rand: rand.New(rand.NewPCG(seed, 0))}
	for i := range 15 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: fmt.Sprintf("root %d", i), Organization: []string{"Größe & Söhne"}},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: i%5 != 4, BasicConstraintsValid: true,
		}
		if i%7 == 6 { // expired
			template.NotBefore, template.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}
		der, err := x509.CreateCertificate(crand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		r.cas = append(r.cas, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	}
	return r
}

// roots returns PEM with some certificates, some of them twice, and text around them.
func (r *randomBundles) roots() string {
	var text strings.Builder
	for range 1 + r.IntN(4) {
		if r.IntN(3) == 0 {
			text.WriteString("# a comment\r\n\n")
		}
		text.WriteString(r.cas[r.IntN(len(r.cas))])
	}
	return text.String()
}

// sources returns the objects in the trust namespace that Bundles name.
func (r *randomBundles) sources() (all []map[string]any) {
	for i := range 6 {
		data := map[string]string{"ca.crt": r.roots(), "more.pem": r.roots()}
		metadata := func(kind string) map[string]any {
			return map[string]any{"name": fmt.Sprintf("%s-%d", kind, i), "namespace": "cert-manager", "labels": map[string]string{"turn": fmt.Sprint(i % 3), "roots": "yes"}}
		}
		all = append(all,
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("configmap"), "data": data},
			map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": metadata("secret"), "stringData": data})
	}
	return all
}

// selection returns what a source selects in an object, or in several.
func (r *randomBundles) selection(kind string) map[string]any {
	s := map[string]any{}
	switch r.IntN(3) {
	case 0:
		s["selector"] = map[string]any{"matchLabels": map[string]string{"turn": fmt.Sprint(r.IntN(3))}}
	case 1:
		s["selector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "roots", "operator": "Exists"}}}
	default:
		s["name"] = fmt.Sprintf("%s-%d", kind, r.IntN(6))
	}
	if r.IntN(3) == 0 {
		s["includeAllKeys"] = true
	} else {
		s["key"] = []string{"ca.crt", "more.pem"}[r.IntN(2)]
	}
	return s
}

// target returns the template of a ConfigMap or Secret.
func (r *randomBundles) target() map[string]any {
	target := map[string]any{"key": []string{"ca.crt", "roots.pem"}[r.IntN(2)]}
	if r.IntN(3) == 0 {
		target["metadata"] = map[string]any{
			"labels": map[string]string{"owner": "security", "zone": fmt.Sprint(r.IntN(9))}, "annotations": map[string]string{"example.com/note": "näh", "a": "b"},
		}
	}
	return target
}

func (r *randomBundles) formats() map[string]any {
	formats := map[string]any{}
	pkcs12 := map[string]any{"key": "trust.p12"}
	if r.IntN(2) == 0 {
		pkcs12["password"] = "secret word"
	}
	if profile := []string{"", "LegacyRC2", "LegacyDES", "Modern2023"}[r.IntN(4)]; profile != "" {
		pkcs12["profile"] = profile
	}
	jks := map[string]any{"key": "trust.jks"}
	if r.IntN(2) == 0 {
		jks["password"] = "secret word"
	}
	switch r.IntN(3) {
	case 0:
		formats["jks"] = jks
	case 1:
		formats["pkcs12"] = pkcs12
	default:
		formats["jks"], formats["pkcs12"] = jks, pkcs12
	}
	return formats
}

// bundle returns a Bundle.
func (r *randomBundles) bundle(name string) map[string]any {
	var sources []any
	for range 1 + r.IntN(3) {
		switch r.IntN(4) {
		case 0:
			sources = append(sources, map[string]any{"inLine": r.roots()})
		case 1:
			sources = append(sources, map[string]any{"configMap": r.selection("configmap")})
		case 2:
			sources = append(sources, map[string]any{"secret": r.selection("secret")})
		default:
			sources = append(sources, map[string]any{"inLine": r.roots()})
			if r.IntN(2) == 0 {
				sources = append(sources, map[string]any{"useDefaultCAs": true})
				sources = sources[max(0, len(sources)-2):] // one entry at most
			}
		}
	}
	target := map[string]any{}
	switch r.IntN(3) {
	case 0:
		target["configMap"] = r.target()
	case 1:
		target["secret"] = r.target()
	default:
		target["configMap"], target["secret"] = r.target(), r.target()
	}
	if r.IntN(2) == 0 {
		target["additionalFormats"] = r.formats()
	}
	switch r.IntN(3) {
	case 0:
		target["namespaceSelector"] = map[string]any{"matchLabels": map[string]string{"trust": "yes"}}
	case 1:
		target["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "zone", "operator": "In", "values": []string{"east", "west"}}}}
	}
	return map[string]any{
		"apiVersion": "trust.cert-manager.io/v1alpha1", "kind": "Bundle", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"sources": sources, "target": target},
	}
}

// trustManager starts trust-manager.
func (d *dropIn) trustManager(t *testing.T, args ...string) *process {
	t.Helper()
	return d.measured(t, "trust-manager", "trust-manager", append([]string{"-secret-targets-enabled", "-default-package-location", d.roots}, args...)...)
}

// synced reports whether Bundles whose names have a part are synced, and how many there are.
func (d *dropIn) synced(t *testing.T, part string) (count int, all bool) {
	t.Helper()
	all = true
	for name, object := range d.list(t, "bundles") {
		if !strings.Contains(name, part) {
			continue
		}
		count++
		status, _ := object["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		synced := false
		for _, each := range conditions {
			one := each.(map[string]any)
			synced = synced || one["type"] == "Synced" && one["status"] == "True" && one["observedGeneration"] == object["metadata"].(map[string]any)["generation"]
		}
		all = all && synced
	}
	return count, all
}

// startBundles has trust-manager write the targets of random Bundles, and returns it running.
func (d *dropIn) startBundles(t *testing.T, r *randomBundles, count int) *process {
	t.Helper()
	d.apply(t, "", "-f", moduleFolder(t, "trustmanager", "github.com/cert-manager/trust-manager")+"/deploy/crds/trust.cert-manager.io_bundles.yaml")
	d.kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd/bundles.trust.cert-manager.io")
	for name, labels := range teams {
		namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": labels}}
		if made := d.do(t, call{method: http.MethodPost, path: "/api/v1/namespaces", body: namespace}); made.Code != http.StatusCreated {
			t.Fatalf("%+v", made)
		}
	}
	d.createAll(t, r.sources()...)
	for i := range count {
		d.createAll(t, r.bundle(fmt.Sprintf("bundle-%d", i)))
	}
	p := d.trustManager(t)
	eventually(t, "trust-manager has synced all Bundles", func() bool { n, all := d.synced(t, "bundle-"); return n == count && all })
	return p
}

// defaultPackage writes a package of default CAs.
func (r *randomBundles) defaultPackage(t *testing.T, path string) {
	t.Helper()
	data, err := json.Marshal(map[string]string{"name": "debian", "version": "20261001", "bundle": r.cas[0] + r.cas[1] + r.cas[2]})
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(data))
}

// syncs creates a Bundle, and waits until it is synced.
func (d *dropIn) syncs(t *testing.T, r *randomBundles, who string) {
	t.Helper()
	name := newcomer(who) + "-bundle"
	d.createAll(t, r.bundle(name))
	eventually(t, who+" syncs a new Bundle", func() bool { n, all := d.synced(t, name); return n == 1 && all })
}

// targets returns the data and the hash of each target of users, without keystores, which are
// different with each encoding.
func (d *dropIn) targets(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, kind := range []string{"configmaps", "secrets"} {
		for name, object := range d.state(t, kind)[kind] {
			metadata := object["metadata"].(map[string]any)
			data, _ := object["data"].(map[string]any)
			text := fmt.Sprint(metadata["annotations"], metadata["labels"])
			for _, key := range []string{"ca.crt", "roots.pem"} {
				text += fmt.Sprint("\n", key, data[key])
			}
			all[kind+" "+name] = text
		}
	}
	return all
}

// startWithBundles is startDropIn with Bundles, whose targets trust-manager has written.
func startWithBundles(t *testing.T, r *randomBundles) *dropIn {
	t.Helper()
	d := startDropIn(t, everythingOfCertManager+",bundles")
	d.roots = filepath.Join(filepath.Dir(d.config), "roots.json")
	r.defaultPackage(t, d.roots)
	write(t, d.config, `apiVersion: config.certplane.dev/v1alpha1
kind: ControllersConfiguration
certManager: {clusterResourceNamespace: kube-system}
trustManager: {trustNamespace: cert-manager, secretTargets: [All], defaultPackage: `+d.roots+"}\n")
	stop(t, d.startBundles(t, r, 50))
	return d
}

// certplane takes over the targets of trust-manager's Bundles, and gives them back unwritten.
// Targets that are deleted come back with the same PEM and the same hash.
func TestDropInBundles(t *testing.T) {
	const seed = 2026
	r := newRandomBundles(t, seed)
	d := startWithBundles(t, r)
	before := d.targets(t)
	t.Logf("50 Bundles have %d targets", len(before))
	d.thereAndBack(t, bundleKinds, func(who string) { d.syncs(t, r, who) }, func() *process { return d.trustManager(t) })

	d.begin(t, "certplane")
	ours := d.takeOver(t)
	for namespace := range teams {
		d.kubectl(t, "delete", "configmaps,secrets", "-n", namespace, "-l", "trust.cert-manager.io/bundle", "--wait=false")
	}
	var after map[string]string
	eventually(t, "certplane has written all targets", func() bool {
		after = d.targets(t)
		return !slices.ContainsFunc(slices.Collect(maps.Keys(before)), func(name string) bool { return after[name] == "" })
	})
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s of certplane\n%s\nof trust-manager\n%s", name, after[name], text)
		}
	}
	d.idle(t, ours)
	patches := map[string]int{}
	for _, w := range d.writes(t) {
		if w.verb == "patch" && (w.resource == "configmaps" || w.resource == "secrets") && d.ofUsers(w.namespace, w.name) {
			patches[w.resource+" "+w.namespace+"/"+w.name]++
		}
	}
	if len(patches) == 0 {
		t.Error("no target was patched")
	}
	for name, count := range patches {
		if count > 1 {
			t.Errorf("%s was patched %d times", name, count)
		}
	}
	d.giveBack(t, ours)
}

// A thousand Certificates, of which 225 belong to Ingresses, Gateways and ListenerSets, 32
// objects with CAs and 50 Bundles go over and come back.
func TestDropInThousand(t *testing.T) {
	r := newRandomBundles(t, 1000)
	d := startWithBundles(t, r)
	users := fleet{ingresses: 200, gateways: 20, listenerSets: 5}
	users.certificates = 1000 - users.ingresses - users.gateways - users.listenerSets
	controller := d.startFleet(t, users)
	stop(t, d.startInjected(t), controller)
	works := func(who string) {
		d.works(t, who)
		d.injects(t, who)
		d.syncs(t, r, who)
	}
	d.thereAndBack(t, slices.Concat(shimKinds, injectedKinds, bundleKinds), works,
		func() *process { return d.certManager(t) }, func() *process { return d.cainjector(t) }, func() *process { return d.trustManager(t) })
}
