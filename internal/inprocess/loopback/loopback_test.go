package loopback_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/inprocess/loopback"
)

// patience bounds what must happen at once.
const patience = 10 * time.Second

func connect(handler http.HandlerFunc) *http.Client {
	transport := loopback.New(nil)
	transport.Serve(handler)
	return &http.Client{Transport: transport}
}

func get(t *testing.T, ctx context.Context, client *http.Client, path string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:6443"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(request)
}

func TestAnswer(t *testing.T) {
	client := connect(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Seen", strings.Join([]string{r.Method, r.Host, r.RequestURI, r.RemoteAddr, r.Proto, r.Header.Get("Authorization")}, " "))
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)      // the first one counts
		w.Header().Set("Late", "ignored") // the header is on its way
		io.WriteString(w, "you said ")
		w.Write(body)
		r.Header.Del("Authorization")
	})
	request, err := http.NewRequest(http.MethodPost, "https://127.0.0.1:6443/path?q=1", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer x")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "you said hello" || response.ContentLength != int64(len(body)) {
		t.Errorf("body = %q, %v", body, err)
	}
	if want := "POST 127.0.0.1:6443 /path?q=1 127.0.0.1:0 HTTP/2.0 Bearer x"; response.Header.Get("Seen") != want {
		t.Errorf("the handler has seen %q, want %q", response.Header.Get("Seen"), want)
	}
	if response.StatusCode != http.StatusTeapot || response.Header.Get("Late") != "" {
		t.Errorf("answer = %+v", response)
	}
	if request.Header.Get("Authorization") == "" {
		t.Error("the handler has changed the client's request")
	}
}

func TestBeforeServing(t *testing.T) {
	transport := loopback.New(nil)
	client := &http.Client{Transport: transport}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := get(t, impatient, client, "/"); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want that the context was canceled", err)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if response, err := get(t, t.Context(), client, "/"); err != nil || response.StatusCode != http.StatusNoContent {
			t.Errorf("answer = %v, %v", response, err)
		}
	}()
	transport.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	within(t, answered, "the request is answered")
}

// The values of a client's context do not reach the handler.
func TestContextIsTheHandlersOwn(t *testing.T) {
	type key struct{}
	client := connect(func(w http.ResponseWriter, r *http.Request) {
		if value := r.Context().Value(key{}); value != nil {
			t.Errorf("the handler sees %v", value)
		}
		if deadline, ok := r.Context().Deadline(); ok {
			t.Errorf("the handler sees the client's deadline %v", deadline)
		}
	})
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "secret"), patience)
	defer cancel()
	if _, err := get(t, ctx, client, "/"); err != nil {
		t.Error(err)
	}
}

func TestClientGoesAway(t *testing.T) {
	for _, path := range []string{"/", "/?watch=true"} {
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan struct{})
		client := connect(func(w http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
			//lint:ignore SA1019 The filters of the API server still ask for it.
			<-w.(http.CloseNotifier).CloseNotify()
			close(told)
		})
		if _, err := get(t, ctx, client, path); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error = %v, want that the context was canceled", path, err)
		}
		within(t, told, "the handler is told")
	}
}

func TestPanicEndsTheAnswer(t *testing.T) {
	client := connect(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	for _, path := range []string{"/", "/?watch=true"} {
		if _, err := get(t, t.Context(), client, path); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: error = %v, want an unexpected end", path, err)
		}
	}
}

func TestStream(t *testing.T) {
	next := make(chan string)
	client := connect(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.(http.Flusher).Flush()
		for event := range next {
			io.WriteString(w, event)
		}
	})
	response, err := get(t, t.Context(), client, "/?watch=1")
	if err != nil || response.Header.Get("Content-Type") != "text/plain" {
		t.Fatalf("answer = %+v, %v", response, err)
	}
	buffer := make([]byte, 16)
	for _, event := range []string{"one", "two"} {
		next <- event
		if n, err := response.Body.Read(buffer); err != nil || string(buffer[:n]) != event {
			t.Errorf("read %q, %v, want %q", buffer[:n], err, event)
		}
	}
	close(next)
	if n, err := response.Body.Read(buffer); err != io.EOF {
		t.Errorf("read %q, %v, want the end", buffer[:n], err)
	}
}

// A writer waits for a reader that is far behind, as long as the reader exists.
func TestStreamOfSlowReader(t *testing.T) {
	for reason, leave := range map[string]func(*http.Response, func()){
		"closes the body":     func(r *http.Response, _ func()) { r.Body.Close() },
		"cancels the request": func(_ *http.Response, cancel func()) { cancel() },
	} {
		t.Run(reason, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stopped := make(chan struct{})
			client := connect(func(w http.ResponseWriter, r *http.Request) {
				for event := make([]byte, 1<<10); ; {
					if _, err := w.Write(event); err != nil {
						close(stopped)
						<-r.Context().Done()
						return
					}
				}
			})
			response, err := get(t, ctx, client, "/?watch=true")
			if err != nil {
				t.Fatal(err)
			}
			leave(response, cancel)
			within(t, stopped, "the writer stops")
			if _, err := io.Copy(io.Discard, response.Body); err == nil {
				t.Error("the stream has a regular end")
			}
		})
	}
}

func within(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("gave up waiting until %s", what)
	}
}
