package incluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/incluster"
)

var update = flag.Bool("update", false, "write the golden files")

// cluster is an API, and a Solver in it.
type cluster struct {
	*incluster.Solver
	client.Client
	t *testing.T
	// created are the objects as the Solver sent them.
	created []client.Object
	// calls counts the requests by verb and type.
	calls map[string]int
	// before is called before each patch; it may be nil.
	before func()
}

func newCluster(t *testing.T, change func(*incluster.Settings), objects ...client.Object) *cluster {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), acmev1.AddToScheme(kinds), incluster.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	settings := incluster.DefaultSettings()
	settings.SolverImage = "registry.example.com/certplane:v1"
	settings.EnableGatewayAPI = true
	if change != nil {
		change(&settings)
	}
	if err := settings.Validate(); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, calls: map[string]int{}}
	c.Client = fake.NewClientBuilder().WithScheme(kinds).WithObjects(objects...).WithInterceptorFuncs(c.observe()).Build()
	c.Solver = incluster.New(incluster.Config{Client: c.Client, Settings: settings, SelfCheck: func(context.Context, solver.Task) (solver.Found, error) {
		return solver.Found{Note: "checked"}, nil
	}})
	return c
}

func (c *cluster) observe() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, api client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			c.created = append(c.created, object.DeepCopyObject().(client.Object))
			c.calls[fmt.Sprintf("create %T", object)]++
			object.SetUID(madeUID(len(c.created)))
			err := api.Create(ctx, object, opts...)
			scribble(object)
			return err
		},
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			c.calls[fmt.Sprintf("list %T", list)]++
			return api.List(ctx, list, opts...)
		},
		Patch: func(ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			c.calls[fmt.Sprintf("patch %T", object)]++
			if c.before != nil {
				c.before()
			}
			return api.Patch(ctx, object, patch, opts...)
		},
	}
}

// scribble writes into what an object points to, as a client does when it decodes
// the answer into it.
func scribble(object client.Object) {
	if pod, ok := object.(*corev1.Pod); ok && pod.Spec.Affinity != nil {
		pod.Spec.Affinity.PodAffinity = &corev1.PodAffinity{}
	}
}

// present presents a challenge, which must work.
func (c *cluster) present(ch *acmev1.Challenge) {
	c.t.Helper()
	if err := c.Present(c.t.Context(), taskOf(ch)); err != nil {
		c.t.Fatal(err)
	}
}

// cleanUp cleans up after a challenge, which must work.
func (c *cluster) cleanUp(ch *acmev1.Challenge) {
	c.t.Helper()
	if err := c.CleanUp(c.t.Context(), taskOf(ch)); err != nil {
		c.t.Fatal(err)
	}
}

// names returns the names of all objects of a kind.
func (c *cluster) names(list client.ObjectList) []string {
	c.t.Helper()
	if err := c.List(c.t.Context(), list); err != nil {
		c.t.Fatal(err)
	}
	var names []string
	err := meta.EachListItem(list, func(item runtime.Object) error {
		names = append(names, item.(client.Object).GetName())
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return names
}

// pod returns the first pod.
func (c *cluster) pod() *corev1.Pod {
	c.t.Helper()
	var list corev1.PodList
	if err := c.List(c.t.Context(), &list, client.InNamespace("shop")); err != nil || len(list.Items) == 0 {
		c.t.Fatalf("%d pods, error %v", len(list.Items), err)
	}
	return &list.Items[0]
}

// route returns the only HTTPRoute.
func (c *cluster) route() *gatewayv1.HTTPRoute {
	c.t.Helper()
	var list gatewayv1.HTTPRouteList
	if err := c.List(c.t.Context(), &list); err != nil || len(list.Items) != 1 {
		c.t.Fatalf("%d HTTPRoutes, error %v", len(list.Items), err)
	}
	return &list.Items[0]
}

// write stores an object.
func (c *cluster) write(object client.Object) {
	c.t.Helper()
	if err := c.Update(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
}

// setStatus has a node report the status of the pod.
func (c *cluster) setStatus(status corev1.PodStatus) *corev1.Pod {
	c.t.Helper()
	pod := c.pod()
	pod.Status = status
	if err := c.Status().Update(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// deleteAll deletes all objects of a kind, as somebody else does.
func (c *cluster) deleteAll(of client.Object) {
	c.t.Helper()
	if err := c.DeleteAllOf(c.t.Context(), of, client.InNamespace("shop")); err != nil {
		c.t.Fatal(err)
	}
}

// duplicate adds a copy of the object of a kind, as two processes at once make.
func (c *cluster) duplicate(list client.ObjectList) {
	c.t.Helper()
	if err := c.List(c.t.Context(), list); err != nil {
		c.t.Fatal(err)
	}
	items, err := meta.ExtractList(list)
	if err != nil || len(items) != 1 {
		c.t.Fatalf("%d objects, error %v", len(items), err)
	}
	twin := items[0].DeepCopyObject().(client.Object)
	twin.SetName("twin")
	twin.SetResourceVersion("")
	if err := c.Create(c.t.Context(), twin); err != nil {
		c.t.Fatal(err)
	}
}

// wantCounts compares how many pods, Services, Ingresses and HTTPRoutes there
// are.
func (c *cluster) wantCounts(reason string, pods, services, ingresses, routes int) {
	c.t.Helper()
	got := []int{
		len(c.names(&corev1.PodList{})), len(c.names(&corev1.ServiceList{})),
		len(c.names(&networkingv1.IngressList{})), len(c.names(&gatewayv1.HTTPRouteList{})),
	}
	if diff := cmp.Diff([]int{pods, services, ingresses, routes}, got); diff != "" {
		c.t.Errorf("%s: pods, Services, Ingresses, HTTPRoutes (-want +got):\n%s", reason, diff)
	}
}

// golden compares the objects that were created with a file. Names that the API
// has made are written as NAME.
func (c *cluster) golden(file string) {
	c.t.Helper()
	var text strings.Builder
	for _, object := range c.created {
		gvk, err := apiutil.GVKForObject(object, c.Scheme())
		if err != nil {
			c.t.Fatal(err)
		}
		object.GetObjectKind().SetGroupVersionKind(gvk)
		data, err := yaml.Marshal(object)
		if err != nil {
			c.t.Fatal(err)
		}
		text.WriteString("---\n" + string(data))
	}
	got := text.String()
	for _, service := range c.names(&corev1.ServiceList{}) {
		got = strings.ReplaceAll(got, service, "NAME")
	}
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		c.t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func madeUID(n int) types.UID { return types.UID(fmt.Sprintf("made-%d", n)) }

func taskOf(ch *acmev1.Challenge) solver.Task {
	return solver.Task{Challenge: ch, Now: time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)}
}

func challenge(http01 *acmev1.ACMEChallengeSolverHTTP01) *acmev1.Challenge {
	return &acmev1.Challenge{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1-2029063428-1938036228", UID: "c1"},
		Spec: acmev1.ChallengeSpec{
			URL: "https://ca.example/chall/1", AuthorizationURL: "https://ca.example/authz/1",
			DNSName: "a.example.com", Type: acmev1.ACMEChallengeTypeHTTP01, Token: "tok", Key: "tok.thumbprint",
			Solver:    acmev1.ACMEChallengeSolver{HTTP01: http01},
			IssuerRef: cmmeta.IssuerReference{Name: "le", Kind: "ClusterIssuer", Group: "cert-manager.io"},
		},
	}
}

// byIngress is a challenge whose solver makes an Ingress.
func byIngress(cfg acmev1.ACMEChallengeSolverHTTP01Ingress) *acmev1.Challenge {
	return challenge(&acmev1.ACMEChallengeSolverHTTP01{Ingress: &cfg})
}

// byRoute is a challenge whose solver makes an HTTPRoute.
func byRoute(cfg acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute) *acmev1.Challenge {
	return challenge(&acmev1.ACMEChallengeSolverHTTP01{GatewayHTTPRoute: &cfg})
}
