package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/pki"
)

// trustLoad is a Bundle of roots with a target in each of many namespaces, and TrustBundles that
// have a root in common.
type trustLoad struct{ namespaces, roots, trustBundles int }

// trustResult is what the targets of a kind of bundles cost a program.
type trustResult struct {
	Program string `json:"program"`
	Targets int    `json:"targets"`
	// TargetKB is the size of one target.
	TargetKB float64 `json:"targetKB"`
	// First is until all targets exist, and Changed until all have a new root.
	First   trustRound `json:"first"`
	Changed trustRound `json:"changed"`
	// Start is a start with all targets up to date, whose Seconds are not measured.
	Start trustRound `json:"start"`
	// Before is memory at rest without bundles and namespaces, and After with both, each after
	// a start.
	Before restMemory `json:"before"`
	After  restMemory `json:"after"`

	mostSeconds, mostMB float64
}

// goals compares a new root with the goals for 5,000 namespaces and for 2,000 TrustBundles.
func (r trustResult) goals() []goal {
	what := fmt.Sprintf("%d targets of %s", r.Targets, r.Program)
	return []goal{
		{What: what + ": a new root", Unit: "s", Is: r.Changed.Seconds, Limit: r.mostSeconds},
		{What: what + ": writes of a new root", Unit: "of the targets", Is: float64(r.Changed.Writes) / float64(r.Targets), Limit: 1},
		{What: what + ": writes of a start", Unit: "writes", Is: float64(r.Start.Writes)},
		{What: what + ": memory", Unit: "MB", Is: r.After.AnonymousMB - r.Before.AnonymousMB, Limit: r.mostMB},
	}
}

// trustRound is one change of all targets.
type trustRound struct {
	Seconds float64 `json:"seconds"`
	// Writes are requests that write ConfigMaps.
	Writes int `json:"writes"`
	// CPU is of the program, and of the API server with its etcd.
	CPUSeconds    float64 `json:"cpuSeconds"`
	APICPUSeconds float64 `json:"apiCPUSeconds"`
}

// trustPeer is trust-manager's program.
const trustPeer = "trust-manager"

// spreader is a program that writes targets, and the kind of bundles that it reads.
type spreader struct {
	program, path string
	args          []string
	// label and digest are the label and the annotation of targets.
	label, digest string
	targets       int
	// setUp creates what the bundles need, create creates the bundles, and change adds a root
	// to all targets.
	setUp, create, change func(*trusting, context.Context) error
	// mostSeconds and mostMB are goals: for a new root in all targets, and for memory; 0 without.
	mostSeconds, mostMB float64
}

// measureTrust measures Bundles with certplane and with trust-manager, and TrustBundles, each with
// a kube-apiserver of its own.
func measureTrust(ctx context.Context, opts options, to *results) error {
	if missing := missingPeers(opts.assets, "etcd", "kube-apiserver"); missing != "" {
		log.Printf("targets of bundles are not measured: %s", missing)
		return nil
	}
	bundles := spreader{
		program: threeStepSystem, path: opts.certplane, args: []string{"controllers", "--config", "controllers.yaml", "--kubeconfig", adminKubeconfig},
		label: trustmanager.BundleLabel, digest: trustmanager.HashAnnotation, targets: opts.trust.namespaces,
		setUp: (*trusting).setUpBundle, create: (*trusting).createBundle, change: (*trusting).changeBundle,
		mostSeconds: 60, mostMB: 12,
	}
	all := []spreader{bundles}
	if missing := missingPeers(opts.assets, trustPeer); missing != "" {
		log.Printf("trust-manager is not measured: %s", missing)
	} else {
		bundles.program, bundles.path, bundles.args = trustPeer, filepath.Join(opts.assets, trustPeer), []string{"-kubeconfig", adminKubeconfig, "-trust-namespace", bookNamespace}
		bundles.mostSeconds, bundles.mostMB = 0, 0
		all = append(all, bundles)
	}
	trustBundles := all[0]
	trustBundles.program += ", TrustBundles"
	trustBundles.label, trustBundles.digest, trustBundles.targets = v1alpha1.TrustBundleLabel, v1alpha1.TrustDigestAnnotation, opts.trust.trustBundles
	trustBundles.mostSeconds, trustBundles.mostMB = 30, 20
	trustBundles.setUp, trustBundles.create, trustBundles.change = (*trusting).setUpTrustBundles, (*trusting).createTrustBundles, (*trusting).changeTrustBundle
	for _, s := range append(all, trustBundles) {
		if s.targets == 0 {
			continue
		}
		log.Printf("%d targets of %s", s.targets, s.program)
		if err := s.onKubernetes(ctx, opts, to); err != nil {
			return fmt.Errorf("%s: %w", s.program, err)
		}
	}
	return nil
}

// trusting is an API in which a program writes targets.
type trusting struct {
	*system // the API
	spreader
	load     trustLoad
	settle   time.Duration
	objects  client.Client
	metadata metadata.Interface
	roots    []string // in PEM
	running  *process // the program
}

func (s spreader) onKubernetes(ctx context.Context, opts options, to *results) (err error) {
	api, err := startControlPlane(ctx, opts, []string{"--feature-gates=ClusterTrustBundle=true", "--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true"})
	if err != nil {
		return err
	}
	t := &trusting{system: api, spreader: s, load: opts.trust, settle: opts.settle}
	defer func() { err = errors.Join(err, t.end(), api.stop()) }()
	r, err := t.measureAll(ctx, opts)
	to.Trust = append(to.Trust, r)
	return err
}

func (t *trusting) measureAll(ctx context.Context, opts options) (r trustResult, err error) {
	r = trustResult{Program: t.program, Targets: t.targets, mostSeconds: t.mostSeconds, mostMB: t.mostMB}
	if err := t.prepare(ctx, opts); err != nil {
		return r, fmt.Errorf("preparing the API: %w", err)
	}
	if r.Before, err = t.atRest(ctx); err != nil {
		return r, err
	}
	if err := t.setUp(t, ctx); err != nil {
		return r, err
	}
	var digest string
	if r.First, digest, err = t.round(ctx, "", t.create); err != nil {
		return r, fmt.Errorf("the first targets: %w", err)
	}
	if r.TargetKB, err = t.targetKB(ctx); err != nil {
		return r, err
	}
	if err := t.end(); err != nil {
		return r, err
	}
	r.Start, err = t.measureRound(ctx, func() (err error) { r.After, err = t.atRest(ctx); return err })
	if err != nil {
		return r, fmt.Errorf("a start: %w", err)
	}
	r.Start.Seconds = 0
	r.Changed, _, err = t.round(ctx, digest, t.change)
	return r, err
}

// prepare installs the definitions, and makes clients and roots.
func (t *trusting) prepare(ctx context.Context, opts options) (err error) {
	const configuration = "{apiVersion: config.certplane.dev/v1alpha1, kind: ControllersConfiguration, controllers: [bundles, trustbundles]," +
		" useServiceAccountCredentials: false, webhook: {serve: Never}, trustManager: {trustNamespace: " + bookNamespace + "}}"
	if err := os.WriteFile(filepath.Join(t.dir, "controllers.yaml"), []byte(configuration), 0o600); err != nil {
		return err
	}
	program, err := filepath.Abs(opts.certplane)
	if err != nil {
		return err
	}
	install := exec.CommandContext(ctx, "sh", "-c", `"$0" manifests --config controllers.yaml --image none | "$0" kubectl --kubeconfig admin.kubeconfig apply --server-side -f - &&
		"$0" kubectl --kubeconfig admin.kubeconfig wait --for=condition=Established --timeout=60s crd --all`, program)
	install.Dir = t.dir
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("installing the definitions: %w\n%s", err, out)
	}
	cfg := rest.CopyConfig(t.admin)
	cfg.QPS = -1 // no limit
	if t.objects, err = newObjects(cfg); err != nil {
		return err
	}
	if t.metadata, err = metadata.NewForConfig(cfg); err != nil {
		return err
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return err
	}
	for i := range t.load.roots + 1 {
		root, err := pki.NewRoot(pki.UnrecordedSigning, fmt.Sprintf("Root Certification Authority %d", i), key, day, time.Now())
		if err != nil {
			return err
		}
		t.roots = append(t.roots, string(pki.EncodeCertificates(root.Certificate())))
	}
	return nil
}

// atRest starts the program, and returns its memory after a while.
func (t *trusting) atRest(ctx context.Context) (m restMemory, err error) {
	if t.running, err = startProcess(t.dir, t.path, t.args...); err != nil {
		return m, err
	}
	if err := sleep(ctx, t.settle); err != nil {
		return m, err
	}
	u, err := t.running.usage()
	return restMemory{ResidentMB: u.residentMB, AnonymousMB: u.anonymousMB, FileMB: u.residentMB - u.anonymousMB}, errors.Join(err, t.running.alive())
}

// end stops the program.
func (t *trusting) end() error {
	if t.running == nil {
		return nil
	}
	p := t.running
	t.running = nil
	return p.stop()
}

// round makes a change, waits until all targets have another digest than former, and until
// nothing more is written.
func (t *trusting) round(ctx context.Context, former string, change func(*trusting, context.Context) error) (r trustRound, digest string, err error) {
	var took time.Duration
	r, err = t.measureRound(ctx, func() error {
		began := time.Now()
		if err := change(t, ctx); err != nil {
			return err
		}
		if digest, err = t.await(ctx, former); err != nil {
			return errors.Join(err, t.running.alive())
		}
		took = time.Since(began)
		return sleep(ctx, t.settle)
	})
	r.Seconds = took.Seconds()
	return r, digest, err
}

func (t *trusting) measureRound(ctx context.Context, work func() error) (r trustRound, err error) {
	writes, err := t.writes(ctx)
	if err != nil {
		return r, err
	}
	var before usage // of a program that work starts
	if t.running != nil {
		if before, err = t.running.usage(); err != nil {
			return r, err
		}
	}
	var failed error
	used, err := t.system.measure(ctx, func() { failed = work() })
	if err := errors.Join(failed, err); err != nil {
		return r, err
	}
	after, err1 := t.running.usage()
	now, err2 := t.writes(ctx)
	return trustRound{
		Seconds: used.took.Seconds(), Writes: now - writes, CPUSeconds: (after.cpu - before.cpu).Seconds(), APICPUSeconds: used.serverCPU.Seconds(),
	}, errors.Join(err1, err2)
}

// applied is a metric of requests that write ConfigMaps.
var applied = regexp.MustCompile(`(?m)^apiserver_request_total\{[^}]*resource="configmaps"[^}]*verb="(?:APPLY|PATCH|POST|PUT)"[^}]*\} (\S+)$`)

// writes returns how many requests have written ConfigMaps since the start of the API.
func (t *trusting) writes(ctx context.Context) (count int, err error) {
	text, err := get(ctx, t.admin, "/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics: %w", err)
	}
	for _, found := range applied.FindAllSubmatch(text, -1) {
		number, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return 0, err
		}
		count += int(number)
	}
	return count, nil
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// await waits until all targets have one digest that is not former, and returns it.
func (t *trusting) await(ctx context.Context, former string) (string, error) {
	digests, counts := map[types.NamespacedName]string{}, map[string]int{}
	set := func(m *metav1.PartialObjectMetadata) (digest string, all bool) {
		name := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		counts[digests[name]]--
		digest = m.Annotations[t.digest]
		digests[name] = digest
		counts[digest]++
		return digest, digest != former && counts[digest] == t.targets
	}
	for ctx.Err() == nil {
		clear(digests)
		clear(counts)
		list, err := t.metadata.Resource(configMaps).List(ctx, metav1.ListOptions{LabelSelector: t.label})
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			if digest, all := set(&list.Items[i]); all {
				return digest, nil
			}
		}
		events, err := t.metadata.Resource(configMaps).Watch(ctx, metav1.ListOptions{LabelSelector: t.label, ResourceVersion: list.ResourceVersion})
		if err != nil {
			return "", err
		}
		for event := range events.ResultChan() {
			m, ok := event.Object.(*metav1.PartialObjectMetadata)
			if !ok || event.Type == watch.Deleted {
				break // the watch is too old, or a target is gone
			}
			if digest, all := set(m); all {
				events.Stop()
				return digest, nil
			}
		}
		events.Stop()
	}
	return "", fmt.Errorf("%d targets have the digests %v: %w", len(digests), counts, ctx.Err())
}

// targetKB returns the size of one target.
func (t *trusting) targetKB(ctx context.Context) (float64, error) {
	list := &corev1.ConfigMapList{}
	if err := t.objects.List(ctx, list, client.HasLabels{t.label}, client.Limit(1)); err != nil || len(list.Items) == 0 {
		return 0, errors.Join(err, errors.New("there is no target"))
	}
	size := 0
	for _, text := range list.Items[0].Data {
		size += len(text)
	}
	for _, data := range list.Items[0].BinaryData {
		size += len(data)
	}
	return float64(size) / 1000, nil
}

// createEach creates objects from YAML in which NUMBER stands for a number from 0 to n-1.
func (t *trusting) createEach(ctx context.Context, n int, text string) error {
	return eachOf(ctx, n, func(i int) error {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "NUMBER", strconv.Itoa(i))), &object.Object); err != nil {
			return err
		}
		return persist(ctx, func(ctx context.Context) error { return t.objects.Create(ctx, object.DeepCopy()) })
	})
}

// source is the Secret with the roots of the Bundle.
func (t *trusting) source(roots []string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: named("roots"), StringData: map[string]string{"ca.crt": strings.Join(roots, "")}}
}

func (t *trusting) setUpBundle(ctx context.Context) error {
	return errors.Join(t.objects.Create(ctx, t.source(t.roots[1:])),
		t.createEach(ctx, t.targets, "{apiVersion: v1, kind: Namespace, metadata: {name: team-NUMBER, labels: {bench: bundle}}}"))
}

func (t *trusting) createBundle(ctx context.Context) error {
	return t.createEach(ctx, 1, `
apiVersion: trust.cert-manager.io/v1alpha1
kind: Bundle
metadata: {name: roots}
spec:
  sources: [{secret: {name: roots, key: ca.crt}}]
  target:
    configMap: {key: ca.crt}
    additionalFormats: {pkcs12: {key: ca.p12, password: changeit, profile: Modern2023}}
    namespaceSelector: {matchLabels: {bench: bundle}}
`)
}

func (t *trusting) changeBundle(ctx context.Context) error {
	return t.objects.Update(ctx, t.source(t.roots))
}

// trustBundlesEach is how many TrustBundles a namespace can have.
const trustBundlesEach = 50

func (t *trusting) setUpTrustBundles(ctx context.Context) error {
	return errors.Join(t.clusterTrustBundle(ctx, t.roots[:1]), t.createEach(ctx, t.targets/trustBundlesEach+1, "{apiVersion: v1, kind: Namespace, metadata: {name: team-NUMBER}}"))
}

func (t *trusting) createTrustBundles(ctx context.Context) error {
	return eachOf(ctx, t.targets, func(i int) error {
		b := &v1alpha1.TrustBundle{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", i/trustBundlesEach), Name: fmt.Sprintf("roots-%d", i)}}
		b.Spec.Sources = []v1alpha1.TrustSource{{ClusterTrustBundle: &v1alpha1.TrustName{Name: "shared"}}}
		return persist(ctx, func(ctx context.Context) error { return t.objects.Create(ctx, b.DeepCopy()) })
	})
}

func (t *trusting) changeTrustBundle(ctx context.Context) error {
	return t.clusterTrustBundle(ctx, t.roots[:2])
}

// clusterTrustBundle applies the ClusterTrustBundle that is the source of all TrustBundles.
func (t *trusting) clusterTrustBundle(ctx context.Context, roots []string) error {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"trustBundle": strings.Join(roots, "")}}}
	object.SetAPIVersion("certificates.k8s.io/v1beta1")
	object.SetKind("ClusterTrustBundle")
	object.SetName("shared")
	return t.objects.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("bench"))
}

func writeTrust(out io.Writer, all []trustResult) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "targets of\ttargets\tKB each\t\tseconds\twrites\tCPU s\tAPI CPU s\tmore MB\t")
	for _, r := range all {
		for _, row := range []struct {
			what string
			trustRound
		}{{"first", r.First}, {"a start", r.Start}, {"a new root", r.Changed}} {
			fmt.Fprintf(table, "%s\t%d\t%.0f\t%s\t%.1f\t%d\t%.1f\t%.1f\t%.0f\t\n", r.Program, r.Targets, r.TargetKB, row.what, row.Seconds, row.Writes, row.CPUSeconds, row.APICPUSeconds, r.After.AnonymousMB-r.Before.AnonymousMB)
		}
	}
	return table.Flush()
}
