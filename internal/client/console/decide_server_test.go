package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"golang.org/x/net/html"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// parse returns the elements of a page.
func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// elements returns the elements of some names below another one, in their order.
func elements(below *html.Node, names ...string) []*html.Node {
	var found []*html.Node
	for n := range below.Descendants() {
		for _, name := range names {
			if n.Type == html.ElementNode && n.Data == name {
				found = append(found, n)
			}
		}
	}
	return found
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var all strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			all.WriteString(d.Data)
		}
	}
	return strings.TrimSpace(all.String())
}

func has(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

func conditionsOf(t *testing.T, admin kubernetes.Interface, name string) []certificatesv1.CertificateSigningRequestCondition {
	t.Helper()
	got, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Status.Conditions
}

// Enter sends a form by its first button that is not disabled, if the form has a field of
// one line. No form that decides has one, or none that decides is the first button.
func TestEnterDecidesNothing(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	submit(t, admin, "enter")
	b := open(t, s, s.Login(t, "enter", "system:masters"))
	deciding := 0
	for _, path := range []string{"object/" + requests + "/-/enter", "requests"} {
		page, _ := b.get(t, path)
		for _, form := range elements(parse(t, page), "form") {
			var buttons, fields []*html.Node
			decides := false
			for _, e := range elements(form, "button", "input") {
				switch {
				case e.Data == "button":
					buttons = append(buttons, e)
					decides = decides || attribute(e, "name") == "decision"
				case attribute(e, "type") != "hidden":
					fields = append(fields, e)
				}
			}
			if !decides {
				continue
			}
			deciding++
			if len(fields) > 0 && !has(buttons[0], "disabled") {
				t.Errorf("%s: Enter in a field sends the form by %q", path, text(buttons[0]))
			}
		}
	}
	if deciding != 3 {
		t.Errorf("%d forms that decide, want 3", deciding)
	}
}

// A denial needs a reason. What is refused is shown at the address of the request, with
// what was typed.
func TestRefusedDecision(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	csr := submit(t, admin, "refused")
	b := open(t, s, s.Login(t, "refuser", "system:masters"))
	at := "object/" + requests + "/-/refused"
	page, code := b.post(t, at, url.Values{"uid": {string(csr.UID)}, "decision": {"deny"}, "message": {"  "}})
	if code != http.StatusBadRequest || len(conditionsOf(t, admin, "refused")) > 0 {
		t.Errorf("a denial without a reason: %d", code)
	}
	wants(t, page, "A denial needs a reason", "<h1>CertificateSigningRequest refused</h1>")

	answer, err := b.PostForm(b.base+at, url.Values{"uid": {"another"}, "decision": {"deny"}, "message": {"not ours\r\nat all"}})
	page, code = read(t, answer, err)
	if code != http.StatusConflict || answer.Request.URL.String() != b.base+at {
		t.Errorf("%d at %s", code, answer.Request.URL)
	}
	wants(t, page, "another request now has its name", ">not ours\nat all</textarea>", `data-keep open`)
	if _, code := b.get(t, at); code != http.StatusOK {
		t.Errorf("the address is answered with %d when it is read again", code)
	}

	page, code = b.post(t, at, url.Values{"uid": {string(csr.UID)}, "decision": {"deny"}, "message": {"not ours\r\nat all"}})
	wants(t, page, "refused is denied.", "Back to the requests")
	if conditions := conditionsOf(t, admin, "refused"); code != http.StatusOK || len(conditions) != 1 || conditions[0].Message != "not ours at all" {
		t.Errorf("%d %+v", code, conditions)
	}
	if page, _ := b.get(t, at+"?decided=approve"); strings.Contains(page, "is approved") {
		t.Errorf("an address says what has not happened:\n%s", page)
	}
}

// A request that its signer would refuse is approved in two steps.
func TestApproveWhatIsRefused(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	csr := apitest.NewCSR(t, "useless", certificatesv1.KubeAPIServerClientKubeletSignerName, pki.Subject{CommonName: "useless.example.com"}, apitest.NewKey(t))
	csr = apitest.Create(t, admin, csr)
	b := open(t, s, s.Login(t, "careful", "system:masters"))
	page, _ := b.get(t, "requests?search=useless")
	wants(t, page, "its signer would refuse")
	at := "object/" + requests + "/-/useless"
	form := url.Values{"uid": {string(csr.UID)}, "decision": {"approve"}}
	page, code := b.post(t, at, form)
	wants(t, page, "Its signer would refuse it: ", "Approve it anyway", `name="anyway"`)
	if code != http.StatusConflict || len(conditionsOf(t, admin, "useless")) > 0 {
		t.Errorf("approved in one step: %d", code)
	}
	form.Set("anyway", "yes")
	if page, code := b.post(t, at, form); code != http.StatusOK || len(conditionsOf(t, admin, "useless")) == 0 {
		t.Errorf("%d\n%s", code, page)
	}
}

// Where policies require people, pages say before a decision who may approve, and who has.
func TestPeople(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	policies := dynamic.NewForConfigOrDie(s.Admin(t)).Resource(v1alpha1.GroupVersion.WithResource("certificatepolicies"))
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "CertificatePolicy", "metadata": map[string]any{"name": "two-people"},
		"spec": map[string]any{
			"match": map[string]any{"kinds": []any{"CertificateSigningRequest"}, "signers": []any{"example.com/web"}}, "effect": "Limit",
			"approval": map[string]any{"mode": "People", "people": map[string]any{"count": int64(2)}},
		},
	}}
	apitest.Eventually(t, "the policy is stored", func() bool {
		_, err := policies.Create(t.Context(), policy, metav1.CreateOptions{})
		return err == nil
	})
	csr := submit(t, admin, "paired")
	at := "object/" + requests + "/-/paired"

	token, user := tokenOf(t, admin, "robot")
	all := apitest.Allow("list watch get update approve create", "*")
	all.APIGroups = []string{"*"}
	s.Grant(t, user, all)
	robot := open(t, s, s.Anonymous(t))
	robot.post(t, "login", url.Values{"token": {token}})
	apitest.Eventually(t, "the list says that people are needed", func() bool {
		page, _ := robot.get(t, "requests")
		return strings.Contains(page, "needs people (0 of 2); you cannot approve")
	})
	page, _ := robot.get(t, at)
	wants(t, page, "You cannot approve it: certificate policy two-people: your approval does not count: service accounts do not count as people", "certplane console --login-link", "2 more (0 of 2 for the policy two-people)")
	if strings.Contains(page, `value="approve"`) {
		t.Error("there is a button that approves")
	}

	bob := open(t, s, s.Login(t, "bob", "system:masters"))
	page, _ = bob.post(t, at, url.Values{"uid": {string(csr.UID)}, "decision": {"approve"}, "message": {"one"}})
	wants(t, page, "Your approval of paired is recorded. More approvals are needed.", "You have approved it.", "bob approved, 1 of 2: &#34;one&#34; (20", "1 more (1 of 2 for the policy two-people)")
	page, _ = bob.get(t, "requests")
	wants(t, page, "you approved, 1 of 2")
	page, _ = open(t, s, s.Login(t, "carol", "system:masters")).post(t, at, url.Values{"uid": {string(csr.UID)}, "decision": {"approve"}})
	wants(t, page, "paired is approved.")
}

// Lists are searched, and say how many there are.
func TestSearchRequests(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	for i := range 52 {
		name := fmt.Sprintf("many-%02d", i)
		submit(t, admin, name)
		t.Cleanup(func() { // lists of other tests show one page
			_ = admin.CertificatesV1().CertificateSigningRequests().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
	b := open(t, s, s.Login(t, "searcher", "system:masters"))
	rows := func(path string) (names []string) {
		page, _ := b.get(t, path)
		for _, a := range elements(parse(t, page), "a") {
			if name, ok := strings.CutPrefix(text(a), "csr/many-"); ok {
				names = append(names, name)
			}
		}
		return names
	}
	for path, want := range map[string]int{
		"requests?search=MANY-17.example.com": 1, "requests?search=csr/many-3": 10, "requests?search=many-&signer=EXAMPLE.com": 50,
		"requests?search=many-&page=2": 2, "requests?search=many-&signer=hosts": 0, "requests?search=many-&state=all&page=2": 2,
	} {
		if got := rows(path); len(got) != want {
			t.Errorf("%s: %d rows, want %d", path, len(got), want)
		}
	}
	if got := rows("requests?search=many-&order=newest"); len(got) == 0 || got[0] != "51" {
		t.Errorf("the newest is %q", got)
	}
	page, _ := b.get(t, "requests?search=many-&page=2")
	wants(t, page, "51-52 of 52")
	page, _ = b.get(t, "requests?search=many-")
	wants(t, page, "1-50 of 52", "Last page")
	page, _ = b.get(t, "requests?signer=nobody")
	if wants(t, page, "None of ", " requests matches."); strings.Contains(page, "No request waits") {
		t.Error("the page says that none waits")
	}
}

// Many requests are decided with one confirmation, by those that were looked at.
func TestDecideMany(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	one, two := submit(t, admin, "bulk-1"), submit(t, admin, "bulk-2")
	useless := apitest.Create(t, admin, apitest.NewCSR(t, "bulk-3", certificatesv1.KubeAPIServerClientKubeletSignerName, pki.Subject{CommonName: "x"}, apitest.NewKey(t)))
	b := open(t, s, s.Login(t, "bulky", "system:masters"))
	page, _ := b.get(t, "requests?search=bulk-")
	var choices []string
	for _, e := range elements(parse(t, page), "input") {
		if attribute(e, "name") == "choice" {
			choices = append(choices, attribute(e, "value"))
		}
	}
	if len(choices) != 3 {
		t.Fatalf("choices: %q", choices)
	}
	choices = append(choices, requests+"//bulk-1/another-uid", "secrets/default/x/y", "nonsense")
	page, code := b.post(t, "requests/decide", url.Values{"decision": {"approve"}, "choice": choices})
	if code != http.StatusOK || len(conditionsOf(t, admin, one.Name))+len(conditionsOf(t, admin, two.Name)) > 0 {
		t.Errorf("decided without a confirmation: %d", code)
	}
	wants(t, page, "Approve 2 requests?", "another request now has its name", "its signer would refuse it: ", "it is not a request")
	if n := strings.Count(page, `name="choice"`); n != 2 {
		t.Errorf("the confirmation is for %d requests, want 2", n)
	}
	if page, code := b.post(t, "requests/decide", url.Values{"decision": {"deny"}, "choice": choices, "confirmed": {"yes"}}); code != http.StatusBadRequest {
		t.Errorf("denied without a reason: %d\n%s", code, page)
	}
	sent := []string{requests + "//bulk-1/" + string(one.UID), requests + "//bulk-2/another-uid"}
	page, _ = b.post(t, "requests/decide", url.Values{"decision": {"approve"}, "choice": sent, "confirmed": {"yes"}, "message": {"both"}})
	wants(t, page, "1 of 2 requests decided.", "1 request could not be decided", "another request now has its name")
	if c := conditionsOf(t, admin, "bulk-1"); len(c) != 1 || c[0].Message != "both" || len(conditionsOf(t, admin, "bulk-2")) != 0 || len(conditionsOf(t, admin, useless.Name)) != 0 {
		t.Errorf("decided wrongly: %+v", c)
	}
	for what, form := range map[string]url.Values{
		"none": {"decision": {"approve"}}, "no decision": {"choice": sent}, "too many": {"decision": {"approve"}, "choice": strings.Split(strings.Repeat("x ", 51), " ")[:51]},
	} {
		if _, code := b.post(t, "requests/decide", form); code != http.StatusBadRequest && what != "too many" {
			t.Errorf("%s: %d", what, code)
		}
	}
}

// Text of requesters hides nothing, wherever a page shows it.
func TestHiddenCharacters(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	csr := apitest.NewCSR(t, "hidden", "example.com/web", pki.Subject{CommonName: "hidden.example.com"}, apitest.NewKey(t))
	const hostile = "a\x1b[31m\u202egnp\u200b\u2028x\u00ad\u0085y"
	csr.Annotations = map[string]string{"note": hostile, "lines": "one\r\ntwo\u202e\n"}
	apitest.Create(t, admin, csr)
	b := open(t, s, s.Login(t, "reader-of-hidden", "system:masters"))
	for _, path := range []string{
		"object/" + requests + "/-/hidden", "object/" + requests + "/-/" + url.PathEscape(hostile), "object/signers.certplane.dev/-/" + url.PathEscape("example.com/"+hostile),
		"requests?search=" + url.QueryEscape(hostile), "object/" + url.PathEscape(hostile) + "/-/x", "issued?expiring=" + url.QueryEscape(hostile),
	} {
		page, _ := b.get(t, path)
		if i := strings.IndexAny(page, "\x1b\r\u202e\u200b\u2028\u00ad\u0085"); i >= 0 {
			t.Errorf("%s shows %q", path, page[max(0, i-60):min(len(page), i+60)])
		}
	}
	page, _ := b.get(t, "object/"+requests+"/-/hidden")
	wants(t, page, `\u202e`)
}
