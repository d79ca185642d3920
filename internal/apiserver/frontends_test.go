package apiserver

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"

	"github.com/certplane/certplane/internal/frontend"
)

func TestFrontEnds(t *testing.T) {
	answer := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	paths, notReady := mux.NewPathRecorderMux("test"), errors.New("no accounts yet")
	var asked []healthz.HealthChecker
	ask := func(checks ...healthz.HealthChecker) error { asked = append(asked, checks...); return nil }
	err := addFrontEnds(paths, ask, []frontend.FrontEnd{
		{Name: "page", Path: "/page", Handler: answer(http.StatusOK)},
		{Name: "acme", Path: "/acme/", Handler: answer(http.StatusCreated), Ready: func(*http.Request) error { return notReady }},
		{Name: "elsewhere", Ready: func(*http.Request) error { return nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/page": http.StatusOK, "/page/more": http.StatusNotFound, "/acme/directory": http.StatusCreated, "/acme": http.StatusNotFound,
	} {
		recorder := httptest.NewRecorder()
		paths.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		if recorder.Code != want {
			t.Errorf("%s: %d, want %d", path, recorder.Code, want)
		}
	}
	if len(asked) != 2 || asked[0].Name() != "acme" || !errors.Is(asked[0].Check(nil), notReady) || asked[1].Name() != "elsewhere" {
		t.Errorf("asked for readiness: %v", asked)
	}
}

// A probe that is not called is reported as an error, and not omitted.
func TestFrontEndWhoseProbeIsNotTaken(t *testing.T) {
	tooLate := errors.New("too late")
	row := frontend.FrontEnd{Name: "acme", Ready: func(*http.Request) error { return nil }}
	err := addFrontEnds(mux.NewPathRecorderMux("test"), func(...healthz.HealthChecker) error { return tooLate }, []frontend.FrontEnd{row})
	if !errors.Is(err, tooLate) {
		t.Errorf("error %v", err)
	}
}
