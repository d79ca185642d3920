package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// growthLoad is which kinds of objects grow to which numbers, as in the flags.
type growthLoad struct{ kinds, sizes string }

// grownKind is a kind of objects whose number grows.
type grownKind struct {
	name string
	// text is an object; NUMBER is its number, REQUEST a PKCS#10 request. Without a text, the
	// objects are requests that get their certificates.
	text string
}

const (
	grownName      = `metadata: {name: grown-NUMBER}`
	grownInDefault = `metadata: {name: grown-NUMBER, namespace: default}`
	grownSecret    = `{apiVersion: v1, kind: Secret, ` + grownInDefault + `}`
	grownSubject   = `subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: grown-NUMBER}], roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}`
	grownCondition = `certificate: {lifetime: {max: 24h}}`
)

var grownKinds = []grownKind{
	{"certificates", ""},
	{"requests", `{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, ` + grownName + `, spec: {signerName: example.com/nobody, usages: [client auth], request: REQUEST}}`},
	{"configmaps", `{apiVersion: v1, kind: ConfigMap, ` + grownInDefault + `}`},
	{"secrets", grownSecret},
	{"namespaces", `{apiVersion: v1, kind: Namespace, ` + grownName + `}`},
	{"serviceaccounts", `{apiVersion: v1, kind: ServiceAccount, ` + grownInDefault + `}`},
	{"nodes", `{apiVersion: v1, kind: Node, ` + grownName + `}`},
	{"clusterroles", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, ` + grownName + `, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`},
	{"clusterrolebindings", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, ` + grownName + `, ` + grownSubject + `}`},
	{"rolebindings", `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, ` + grownInDefault + `, ` + grownSubject + `}`},
	{"issuers", `{apiVersion: cert-manager.io/v1, kind: Issuer, ` + grownInDefault + `, spec: {ca: {secretName: grown-NUMBER}}}`},
	{"policies", `{apiVersion: certplane.dev/v1alpha1, kind: CertificatePolicy, ` + grownName + `, spec: {effect: Limit, match: {signers: [example.com/grown-NUMBER]}, ` + grownCondition + `}}`},
	{"policies-of-signer", `{apiVersion: certplane.dev/v1alpha1, kind: CertificatePolicy, ` + grownName + `, spec: {effect: Limit, match: {signers: [kubernetes.io/kube-apiserver-client], requesters: {users: [grown-NUMBER]}}, ` + grownCondition + `}}`},
}

func grownNames() string {
	var names []string
	for _, kind := range grownKinds {
		names = append(names, kind.name)
	}
	return strings.Join(names, ",")
}

// secretsBegin is the first number of Secrets of each row.
const secretsBegin = 1_000_000_000

// growthCalls is how many of each are created at each size.
const growthCalls = 300

// measureGrowth measures each kind on a server of its own.
func measureGrowth(ctx context.Context, opts options, _ *results) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "kind\tstored\tone more, CPU ms\ta Secret, CPU ms\ta certificate, CPU ms\tat rest, CPU ms/s\tresident MB\t")
	for name := range strings.SplitSeq(opts.growth.kinds, ",") {
		i := slices.IndexFunc(grownKinds, func(k grownKind) bool { return k.name == name })
		if i < 0 {
			return fmt.Errorf("unknown kind %q", name)
		}
		if err := grownKinds[i].onServer(ctx, opts, table); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return table.Flush()
}

// growing is a server in which objects of a kind are stored.
type growing struct {
	grownKind
	*system
	settle    time.Duration
	client    dynamic.Interface
	requester *requesterClient
	waiting   *waiting
	stored    int
}

func (k grownKind) onServer(ctx context.Context, opts options, table *tabwriter.Writer) (err error) {
	s, err := startCertplane(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	g := growing{grownKind: k, system: s, settle: opts.settle}
	if err := g.open(ctx); err != nil {
		return err
	}
	defer g.waiting.stop()
	for size := range strings.SplitSeq(opts.growth.sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		if err := g.row(ctx, n-g.stored, table); err != nil {
			return err
		}
	}
	return nil
}

func (g *growing) open(ctx context.Context) (err error) {
	cfg := rest.CopyConfig(g.admin)
	cfg.QPS = -1 // no limit
	if g.client, err = dynamic.NewForConfig(cfg); err != nil {
		return err
	}
	if err := allowOneWrite(ctx, g.admin); err != nil {
		return err
	}
	if g.requester, err = newRequesterClient(ctx, g.admin); err != nil {
		return err
	}
	g.waiting, err = newWaiting(ctx, g.requester)
	return err
}

// row creates n more objects, and measures.
func (g *growing) row(ctx context.Context, n int, table *tabwriter.Writer) error {
	begin := g.stored
	var each []float64
	for _, of := range []struct {
		n    int
		work func() error
	}{
		{n, func() error { return errors.Join(g.grow(ctx, n), sleep(ctx, g.settle)) }},
		{growthCalls, func() error { return g.create(ctx, grownSecret, secretsBegin+begin, growthCalls) }},
		{growthCalls, func() error { return g.certify(ctx, growthCalls) }},
	} {
		used, err := g.cpu(ctx, of.work)
		if err != nil {
			return err
		}
		each = append(each, milliseconds(used.serverCPU)/float64(of.n))
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	if err := sleep(ctx, g.settle); err != nil {
		return err
	}
	rest, err := g.cpu(ctx, func() error { return sleep(ctx, g.settle) })
	if err != nil {
		return err
	}
	fmt.Fprintf(table, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t\n", g.grownKind.name, g.stored, each[0], each[1], each[2],
		milliseconds(rest.serverCPU)/rest.took.Seconds(), rest.memoryMB)
	return nil
}

func (g *growing) cpu(ctx context.Context, work func() error) (consumption, error) {
	var failed error
	used, err := g.measure(ctx, func() { failed = work() })
	return used, errors.Join(failed, err)
}

// grow creates n more objects.
func (g *growing) grow(ctx context.Context, n int) error {
	begin := g.stored
	g.stored += n
	if g.text == "" {
		return g.certify(ctx, n)
	}
	return g.create(ctx, g.text, begin, n)
}

// create creates n objects with numbers from begin on.
func (g *growing) create(ctx context.Context, text string, begin, n int) error {
	return eachOf(ctx, n, func(i int) error {
		object, of := &unstructured.Unstructured{}, strings.NewReplacer("NUMBER", strconv.Itoa(begin+i), "REQUEST", base64.StdEncoding.EncodeToString(g.requester.spec.Request))
		if err := yaml.Unmarshal([]byte(of.Replace(text)), &object.Object); err != nil {
			return err
		}
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		return persist(ctx, func(ctx context.Context) error {
			_, err := g.client.Resource(resource).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
			return err
		})
	})
}

// certify has the requester get n certificates.
func (g *growing) certify(ctx context.Context, n int) error {
	run := time.Now().UnixNano()
	return eachOf(ctx, n, func(i int) error {
		_, err := g.waiting.obtainAtOnce(ctx, g.requester, fmt.Sprintf("certified-%d-%d", run, i))
		return err
	})
}

// eachOf calls do for n objects, in several goroutines, and returns one of their errors.
func eachOf(ctx context.Context, n int, do func(i int) error) error {
	var failed atomic.Value
	load{objects: n}.each(ctx, func(i int) {
		if err := do(i); err != nil {
			failed.CompareAndSwap(nil, failure{err})
		}
	})
	if first, ok := failed.Load().(failure); ok {
		return first.error
	}
	return ctx.Err()
}

// failure has one type, as atomic.Value demands.
type failure struct{ error }
