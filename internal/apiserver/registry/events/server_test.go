package events_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/store/datadir"
)

func newEvent(name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: name},
		EventTime:           metav1.NowMicro(),
		ReportingController: "example.com/tester", ReportingInstance: "tester-1",
		Action: "Testing", Reason: "Tested", Type: corev1.EventTypeNormal, Note: "all is well",
		Regarding: corev1.ObjectReference{Kind: "Secret", Name: "s", Namespace: "default"},
	}
}

func start(t *testing.T) (*apitest.Server, kubernetes.Interface) {
	t.Helper()
	s := apitest.Start(t)
	return s, apitest.Client(t, s.Admin(t))
}

// Both groups serve the same object, each with its own field names.
func TestOneObjectInTwoGroups(t *testing.T) {
	_, admin := start(t)
	modern, legacy := admin.EventsV1().Events("default"), admin.CoreV1().Events("default")
	created, err := modern.Create(t.Context(), newEvent("e"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := legacy.Get(t.Context(), "e", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != created.UID || got.Message != "all is well" || got.InvolvedObject.Name != "s" || got.ReportingController != "example.com/tester" {
		t.Errorf("in the core group: %+v", got)
	}

	for selector, want := range map[string]int{"regarding.name=s": 1, "regarding.name=x": 0, "reportingController=example.com/tester": 1, "type=Normal,reason=Tested": 1} {
		list, err := modern.List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil || len(list.Items) != want {
			t.Errorf("selecting %s: %d events, %v, want %d", selector, len(list.Items), err, want)
		}
	}
	for selector, want := range map[string]int{"involvedObject.name=s": 1, "involvedObject.kind=Pod": 0, "source=example.com/tester": 1} {
		list, err := legacy.List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil || len(list.Items) != want {
			t.Errorf("selecting %s: %d events, %v, want %d", selector, len(list.Items), err, want)
		}
	}

	created.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: metav1.NowMicro()}
	if _, err := modern.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Errorf("counting: %v", err)
	}
	if got, err := legacy.Get(t.Context(), "e", metav1.GetOptions{}); err != nil || got.Series == nil || got.Series.Count != 2 {
		t.Errorf("counted: %+v, %v", got.Series, err)
	}
}

// Items of a list have no kind and version, as in Kubernetes: those of the list
// apply to all of them.
func TestListsSayWhatTheyAreOnce(t *testing.T) {
	s, admin := start(t)
	if _, err := admin.EventsV1().Events("default").Create(t.Context(), newEvent("e"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Restart(t) // caches are filled by lists too
	admin = apitest.Client(t, s.Admin(t))
	if events, err := admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{}); err != nil || events.Items[0].Kind != "" {
		t.Errorf("events: %+v, %v", events, err)
	}
	if namespaces, err := admin.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil || namespaces.Items[0].Kind != "" {
		t.Errorf("namespaces: %+v, %v", namespaces, err)
	}
}

func TestValidation(t *testing.T) {
	_, admin := start(t)
	for _, tt := range []struct {
		reason string
		edit   func(*eventsv1.Event)
		want   string
	}{
		{"no time", func(e *eventsv1.Event) { e.EventTime = metav1.MicroTime{} }, "eventTime: Required value"},
		{"no reporter", func(e *eventsv1.Event) { e.ReportingController = "" }, "reportingController: Required value"},
		{"no type", func(e *eventsv1.Event) { e.Type = "" }, "type: Invalid value"},
		{"fields of the older kind", func(e *eventsv1.Event) { e.DeprecatedCount = 1 }, "count: Invalid value"},
		{"a series of one", func(e *eventsv1.Event) {
			e.Series = &eventsv1.EventSeries{Count: 1, LastObservedTime: metav1.NowMicro()}
		}, "series.count: Invalid value"},
		{"too much to say", func(e *eventsv1.Event) { e.Note = strings.Repeat("x", 1025) }, "message: Invalid value"},
		{"about another namespace", func(e *eventsv1.Event) { e.Name, e.Regarding.Namespace = "other", "kube-system" }, ""},
		{"about what is in no namespace", func(e *eventsv1.Event) { e.Regarding.Namespace = "" }, ""},
	} {
		event := newEvent("e")
		tt.edit(event)
		_, err := admin.EventsV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{})
		if tt.want == "" && err != nil || tt.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.reason, err, tt.want)
		}
	}
	changed := newEvent("e")
	changed.Reason = "Other"
	if _, err := admin.EventsV1().Events("default").Update(t.Context(), changed, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("another reason: %v", err)
	}
	legacy := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "legacy"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}}
	if _, err := admin.CoreV1().Events("default").Create(t.Context(), legacy, metav1.CreateOptions{}); err != nil {
		t.Errorf("an event of the older kind needs little: %v", err)
	}
}

// An event is stored with an etcd lease, which deletes it.
func TestEventsExpire(t *testing.T) {
	s, admin := start(t)
	if _, err := admin.EventsV1().Events("default").Create(t.Context(), newEvent("e"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + datadir.Dir(s.Config.DataDir).Etcd() + "/client.sock"}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stored, err := client.Get(t.Context(), "/registry/events/default/e")
	if err != nil || len(stored.Kvs) != 1 {
		t.Fatalf("the stored event: %v, %v", stored, err)
	}
	lease, err := client.TimeToLive(t.Context(), clientv3.LeaseID(stored.Kvs[0].Lease))
	if err != nil {
		t.Fatal(err)
	}
	// Events that are created together share a lease, which is then a little
	// longer.
	if got := time.Duration(lease.GrantedTTL) * time.Second; got < time.Hour || got > 70*time.Minute {
		t.Errorf("the event stays for %v, want an hour", got)
	}
}

func TestTable(t *testing.T) {
	s, admin := start(t)
	if _, err := admin.EventsV1().Events("default").Create(t.Context(), newEvent("e"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The event may be a few seconds old on a busy machine.
	got := regexp.MustCompile(`(?m)^\d+s`).ReplaceAllString(apitest.Table(t, s.Admin(t), "/api/v1/namespaces/default/events?fieldSelector=metadata.name%3De"), "0s")
	const want = "Last Seen|Type|Reason|Object|Message\n0s|Normal|Tested|secret/s|all is well\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
