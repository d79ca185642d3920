package advertise

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/certplane/certplane/internal/store/etcd"
)

func at(endpoints ...string) []netip.AddrPort {
	var all []netip.AddrPort
	for _, endpoint := range endpoints {
		all = append(all, netip.MustParseAddrPort(endpoint))
	}
	return all
}

func TestOnePort(t *testing.T) {
	for _, test := range []struct {
		reason             string
		all, chosen, other []netip.AddrPort
	}{
		{"one", at("192.0.2.7:6443"), at("192.0.2.7:6443"), nil},
		{"in order", at("192.0.2.10:6443", "192.0.2.9:6443"), at("192.0.2.9:6443", "192.0.2.10:6443"), nil},
		{"behind a load balancer", at("192.0.2.7:6443", "192.0.2.7:6443"), at("192.0.2.7:6443"), nil},
		{"different ports", at("192.0.2.8:443", "192.0.2.7:6443", "192.0.2.9:6443"), at("192.0.2.7:6443", "192.0.2.9:6443"), at("192.0.2.8:443")},
	} {
		for range 2 { // every server sees them in an order of its own
			chosen, other := onePort(test.all)
			if !slices.Equal(chosen, test.chosen) || !slices.Equal(other, test.other) {
				t.Errorf("%s: %v and %v, want %v and %v", test.reason, chosen, other, test.chosen, test.other)
			}
			slices.Reverse(test.all)
		}
	}
}

// wanted is the Service of a server at 192.0.2.7:6443.
func wanted() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "None", ClusterIPs: []string{"None"}, ExternalIPs: []string{"192.0.2.7"},
			Ports: []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: 6443, TargetPort: intstr.FromInt32(6443)}},
		},
	}
}

func TestServiceIsKept(t *testing.T) {
	changed := func(change func(*corev1.Service)) *corev1.Service {
		service := wanted()
		change(service)
		return service
	}
	labelled := changed(func(s *corev1.Service) { s.Labels["team"] = "a" })
	for _, test := range []struct {
		reason       string
		stored, want *corev1.Service
		writes       string
	}{
		{"there is none", nil, wanted(), "create"},
		{"it is right", wanted(), wanted(), ""},
		{"it has more labels", labelled, labelled, ""},
		{"its labels are lost", changed(func(s *corev1.Service) { s.Labels = nil }), wanted(), "update"},
		{"somebody redirects it", changed(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.66"} }), wanted(), "update"},
		{"somebody makes it a name", changed(func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
		}), wanted(), "update"},
		{"it selects pods", changed(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} }), wanted(), "update"},
		{"it comes from a cluster", changed(func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.ExternalIPs = "10.96.0.1", []string{"10.96.0.1"}, nil
		}), wanted(), "delete create"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			client := fake.NewClientset()
			if test.stored != nil {
				client = fake.NewClientset(test.stored)
			}
			keeper := Keeper{Services: client.CoreV1(), Endpoint: at("192.0.2.7:6443")[0]}
			if err := keeper.keep(t.Context()); err != nil {
				t.Fatal(err)
			}
			var writes []string
			for _, action := range client.Actions() {
				if action.GetVerb() != "get" {
					writes = append(writes, action.GetVerb())
				}
			}
			if got := strings.Join(writes, " "); got != test.writes {
				t.Errorf("writes %q, want %q", got, test.writes)
			}
			got, err := client.CoreV1().Services("default").Get(t.Context(), Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want.Spec, got.Spec) + cmp.Diff(test.want.Labels, got.Labels); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestServiceCannotBeWritten(t *testing.T) {
	for _, test := range []struct {
		reason string
		err    error
		want   string
	}{
		{"another server was faster", apierrors.NewAlreadyExists(corev1.Resource("services"), Name), ""},
		{"a webhook refuses", errors.New("refused"), "writing Service default/kubernetes: refused"},
	} {
		client := fake.NewClientset()
		client.PrependReactor("create", "services", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
		err := Keeper{Services: client.CoreV1(), Endpoint: at("192.0.2.7:6443")[0]}.keep(t.Context())
		if got := errorText(err); got != test.want {
			t.Errorf("%s: %q, want %q", test.reason, got, test.want)
		}
	}
	keeper := Keeper{Services: fake.NewClientset().CoreV1()}
	if err := keeper.write(t.Context(), at("192.0.2.7:6443", "192.0.2.8:443")); !strings.Contains(errorText(err), "one port, 6443, and cannot name [192.0.2.8:443]") {
		t.Errorf("different ports: %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A server that leaves or dies is removed from the members.
func TestMembers(t *testing.T) {
	store, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	client := store.Connect()
	t.Cleanup(func() { client.Close() })
	const prefix = "/registry/certplane/servers/"
	first, second := &Members{Client: client, Prefix: prefix}, &Members{Client: client, Prefix: prefix}
	dying := &Members{Client: client, Prefix: prefix, TTL: time.Second}
	one, two, three := at("192.0.2.1:6443")[0], at("192.0.2.2:6443")[0], at("192.0.2.3:6443")[0]
	join := func(m *Members, as netip.AddrPort, want ...netip.AddrPort) {
		t.Helper()
		if got, err := m.Join(t.Context(), as); err != nil || !slices.Equal(got, want) {
			t.Errorf("the members are %v, %v, want %v", got, err, want)
		}
	}
	join(first, one, one)
	join(second, two, one, two)
	join(first, one, one, two)
	join(dying, three, one, two, three)
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		members, err := first.Join(ctx, one)
		return !slices.Contains(members, three), err
	}); err != nil {
		t.Errorf("the server that died is named: %v", err)
	}
	join(dying, three, one, two, three) // it was only away
	if _, err := dying.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	if others, err := second.Leave(t.Context()); err != nil || !slices.Equal(others, []netip.AddrPort{one}) {
		t.Errorf("after one has left, there are %v, %v", others, err)
	}
	// A server that shares an endpoint with another one does not take it away.
	join(second, one, one)
	if others, err := first.Leave(t.Context()); err != nil || !slices.Equal(others, []netip.AddrPort{one}) {
		t.Errorf("after one of two behind a load balancer has left, there are %v, %v", others, err)
	}
}
