package incluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/incluster"
)

// Each kind is listed once a pass, and nothing is written when all is there.
func TestPresentAgainWritesNothing(t *testing.T) {
	c := newCluster(t, nil)
	ch := byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{ParentRefs: []gatewayv1.ParentReference{{Name: "edge"}}})
	c.present(ch)
	clear(c.calls)
	c.present(ch)
	want := map[string]int{"list *v1.PodList": 1, "list *v1.ServiceList": 1, "list *v1.HTTPRouteList": 1}
	if diff := cmp.Diff(want, c.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// The API fills in defaults. They are no reason to write.
func TestDefaultsOfRouteAreNoDrift(t *testing.T) {
	c := newCluster(t, nil)
	ch := byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{ParentRefs: []gatewayv1.ParentReference{{Name: "edge"}}})
	c.present(ch)
	route := c.route()
	group, kind := gatewayv1.Group(gatewayv1.GroupName), gatewayv1.Kind("Gateway")
	route.Spec.ParentRefs[0].Group, route.Spec.ParentRefs[0].Kind = &group, &kind
	c.write(route)
	clear(c.calls)
	c.present(ch)
	if n := c.calls["patch *v1.HTTPRoute"]; n > 0 {
		t.Errorf("%d patches of the HTTPRoute, want none", n)
	}
}

// An HTTPRoute that leads elsewhere is corrected.
func TestRouteDrift(t *testing.T) {
	tests := []struct {
		reason string
		change func(*gatewayv1.HTTPRoute)
	}{
		{"the Service is another one", func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].BackendRefs[0].Name = "other" }},
		{"the Gateway is another one", func(r *gatewayv1.HTTPRoute) { r.Spec.ParentRefs[0].Name = "other" }},
		{"a hostname was added", func(r *gatewayv1.HTTPRoute) { r.Spec.Hostnames = append(r.Spec.Hostnames, "b.example.com") }},
		{"a label of the solver was removed", func(r *gatewayv1.HTTPRoute) { delete(r.Labels, "gateway") }},
	}
	for _, test := range tests {
		c := newCluster(t, nil)
		ch := byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{ParentRefs: gatewayParent(), Labels: map[string]string{"gateway": "edge"}})
		c.present(ch)
		before := c.route()
		changed := before.DeepCopy()
		test.change(changed)
		changed.Labels["others"] = "kept"
		c.write(changed)
		c.present(ch)
		after := c.route()
		if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.reason, diff)
		}
		if before.Name != after.Name || after.Labels["gateway"] != "edge" || after.Labels["others"] != "kept" {
			t.Errorf("%s: %s with labels %v, want %s with the labels of the solver and of others", test.reason, after.Name, after.Labels, before.Name)
		}
	}
}

// An Ingress that leads elsewhere is deleted, and created again in the next pass.
func TestIngressDrift(t *testing.T) {
	c := newCluster(t, nil)
	ch := byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{})
	c.present(ch)
	if err := c.DeleteAllOf(t.Context(), &corev1.Service{}, client.InNamespace("shop")); err != nil {
		t.Fatal(err)
	}
	err := c.Present(t.Context(), taskOf(ch))
	if err == nil || !strings.Contains(err.Error(), "did not lead to the Service") {
		t.Fatalf("got %v, want an error about the Ingress", err)
	}
	c.wantCounts("the Ingress leads to a Service that is gone", 1, 1, 0, 0)
	c.present(ch)
	c.wantCounts("the Ingress is created again", 1, 1, 1, 0)
}

// What somebody deletes, or a node ends, comes back.
func TestRemovedObjectsComeBack(t *testing.T) {
	tests := []struct {
		reason string
		ch     *acmev1.Challenge
		remove func(c *cluster)
		want   [4]int
	}{
		{"the pod is deleted", byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{}), func(c *cluster) { c.deleteAll(&corev1.Pod{}) }, [4]int{1, 1, 1, 0}},
		{"the Ingress is deleted", byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{}), func(c *cluster) { c.deleteAll(&networkingv1.Ingress{}) }, [4]int{1, 1, 1, 0}},
		{"the HTTPRoute is deleted", byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{}), func(c *cluster) { c.deleteAll(&gatewayv1.HTTPRoute{}) }, [4]int{1, 1, 0, 1}},
		{"the Service is deleted", byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{}), func(c *cluster) { c.deleteAll(&corev1.Service{}) }, [4]int{1, 1, 0, 1}},
		{"the pod was evicted", byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{}), func(c *cluster) { c.setStatus(corev1.PodStatus{Phase: corev1.PodFailed}) }, [4]int{1, 1, 1, 0}},
		{"the pod is terminating", byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{}), func(c *cluster) {
			pod := c.pod()
			pod.Finalizers = []string{"example.com/slow"}
			c.write(pod)
			c.deleteAll(&corev1.Pod{})
		}, [4]int{2, 1, 1, 0}},
	}
	for _, test := range tests {
		c := newCluster(t, nil)
		c.present(test.ch)
		first := c.names(&corev1.PodList{})
		test.remove(c)
		if _, err := c.Check(t.Context(), taskOf(test.ch)); err != nil {
			t.Errorf("%s: %v", test.reason, err)
		}
		c.wantCounts(test.reason, test.want[0], test.want[1], test.want[2], test.want[3])
		if strings.HasPrefix(test.reason, "the pod") && cmp.Equal(first, c.names(&corev1.PodList{})) {
			t.Errorf("%s: the pod is still the same", test.reason)
		}
	}
}

// Of several objects of one kind, any could be wrong.
func TestDuplicates(t *testing.T) {
	tests := []struct {
		list client.ObjectList
		ch   *acmev1.Challenge
		want string
	}{
		{&corev1.PodList{}, byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{}), "multiple existing challenge solver pods found and cleaned up. retrying challenge sync"},
		{&corev1.ServiceList{}, byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{}), "multiple existing challenge solver services found and cleaned up. retrying challenge sync"},
		{&networkingv1.IngressList{}, byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{}), "multiple existing challenge solver ingresses found and cleaned up. retrying challenge sync"},
		{&gatewayv1.HTTPRouteList{}, byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{}), "multiple HTTPRoutes found"},
	}
	for _, test := range tests {
		c := newCluster(t, nil)
		c.present(test.ch)
		c.duplicate(test.list)
		err := c.Present(t.Context(), taskOf(test.ch))
		if err == nil || err.Error() != test.want {
			t.Errorf("%T: got error %v, want %s", test.list, err, test.want)
		}
		if left := c.names(test.list); len(left) != 0 {
			t.Errorf("%T: %v are left, want none", test.list, left)
		}
		// An Ingress leads to a Service that is new after duplicates of Services.
		_ = c.Present(t.Context(), taskOf(test.ch))
		c.present(test.ch)
		if left := c.names(test.list); len(left) != 1 {
			t.Errorf("%T: %v, want one", test.list, left)
		}
	}
}

// Objects of others stay, even with the same labels.
func TestOthersObjectsStay(t *testing.T) {
	c := newCluster(t, nil)
	ours, other := byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{}), byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{})
	other.Name, other.UID = "other", "c2"
	elsewhere := byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{})
	elsewhere.Namespace = "blog"
	c.present(other)
	c.present(elsewhere)
	unowned := c.pod()
	unowned.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "unowned", Labels: unowned.Labels}
	if err := c.Create(t.Context(), unowned); err != nil {
		t.Fatal(err)
	}
	c.present(ours)
	c.wantCounts("each challenge has its own", 4, 3, 3, 0)
	c.cleanUp(ours)
	c.wantCounts("those of others stay", 3, 2, 2, 0)
}

// Nothing is left after the clean-up, whatever a template says, and nothing is
// missing then the next time.
func TestCleanUp(t *testing.T) {
	tests := []struct {
		reason string
		ch     *acmev1.Challenge
	}{
		{"by an Ingress", byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{})},
		{"with a template that sets the labels of the identity", byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{PodTemplate: fullTemplate()})},
		{"by an HTTPRoute", byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{ParentRefs: gatewayParent()})},
	}
	for _, test := range tests {
		c := newCluster(t, nil)
		c.present(test.ch)
		c.duplicate(&corev1.PodList{})
		c.cleanUp(test.ch)
		c.wantCounts(test.reason, 0, 0, 0, 0)
		c.cleanUp(test.ch)
	}
}

// A cluster without the Gateway API has no HTTPRoutes to delete.
func TestCleanUpWithoutGatewayAPI(t *testing.T) {
	c := newCluster(t, nil)
	missing := interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*gatewayv1.HTTPRouteList); ok {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: gatewayv1.GroupName, Kind: "HTTPRoute"}}
			}
			return api.List(ctx, list, opts...)
		},
	})
	settings := incluster.DefaultSettings()
	settings.EnableGatewayAPI, settings.SolverImage = true, "image"
	s := incluster.New(incluster.Config{Client: missing, Settings: settings})
	task := taskOf(byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{}))
	if err := s.CleanUp(t.Context(), task); err != nil {
		t.Error(err)
	}
	if err := s.Present(t.Context(), task); err == nil || !strings.Contains(err.Error(), "install the Gateway API") {
		t.Errorf("got %v, want what to do", err)
	}
}

// Nothing is made for a challenge that cannot be presented.
func TestNotPresentable(t *testing.T) {
	named := byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{Name: "site"})
	named.Spec.DNSName = "192.0.2.1"
	const could = "couldn't Present challenge shop/web-1-2029063428-1938036228: "
	tests := []struct {
		ch     *acmev1.Challenge
		change func(*incluster.Settings)
		want   string
	}{
		{challenge(nil), nil, "challenge's 'solver' field is specified but no HTTP01 ingress config provided. Ensure solvers[].http01.ingress is specified on your issuer resource"},
		{challenge(&acmev1.ACMEChallengeSolverHTTP01{}), nil, could + "no Ingress nor Gateway HTTP01 solvers were specified"},
		{byRoute(acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{}), func(s *incluster.Settings) { s.EnableGatewayAPI = false }, could + "gateway api is not enabled"},
		{byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{}), func(s *incluster.Settings) { s.SolverImage = "" }, could + "acme.http01.cluster.solverImage is not set in the configuration of the controllers: it names the container image of certplane"},
		{named, nil, could + `the host of an Ingress cannot be an IP address, so the Ingress "site" cannot lead to the answer for 192.0.2.1: use an issuer whose solver does not name an Ingress`},
	}
	for _, test := range tests {
		c := newCluster(t, test.change)
		if err := c.Present(t.Context(), taskOf(test.ch)); err == nil || err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
		if len(c.created) > 0 {
			t.Errorf("%s: %d objects were made", test.want, len(c.created))
		}
		c.cleanUp(test.ch)
	}
}

// A failed check says why the pod cannot answer.
func TestCheckSaysWhatThePodLacks(t *testing.T) {
	waiting := func(reason string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}}
	}
	condition := func(of corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: of, Status: status, Reason: reason}}}
	}
	tests := []struct {
		status corev1.PodStatus
		want   string
	}{
		{waiting("ErrImagePull"), "ImagePullBackOff"},
		{waiting("CreateContainerConfigError"), "CreateContainerConfigError"},
		{condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable"), "Unschedulable"},
		{corev1.PodStatus{}, "it is starting"},
		{condition(corev1.PodReady, corev1.ConditionTrue, ""), ""},
	}
	failed := errors.New("wrong status code '404', expected '200'")
	for _, test := range tests {
		c := newCluster(t, nil)
		ch := byIngress(acmev1.ACMEChallengeSolverHTTP01Ingress{})
		c.present(ch)
		pod := c.setStatus(test.status)
		settings := incluster.DefaultSettings()
		settings.SolverImage = "image"
		s := incluster.New(incluster.Config{Client: c.Client, Settings: settings, SelfCheck: func(context.Context, solver.Task) (solver.Found, error) {
			return solver.Found{}, failed
		}})
		want := failed.Error()
		if test.want != "" {
			want += " (the solver's pod " + pod.Name + " is not ready: " + test.want + ")"
		}
		if _, err := s.Check(t.Context(), taskOf(ch)); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
