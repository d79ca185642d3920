package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// capture sets up the log of the process, calls say, and returns the logged
// lines. It restores the log afterwards.
func capture(t *testing.T, config Config, say func()) []string {
	t.Helper()
	flags, out := log.Flags(), log.Writer()
	t.Cleanup(func() {
		klog.ClearLogger()
		log.SetFlags(flags)
		log.SetOutput(out)
		if _, err := logs.GlogSetter("0"); err != nil {
			t.Error(err)
		}
	})
	var buffer bytes.Buffer
	if err := config.Apply(&buffer); err != nil {
		t.Fatal(err)
	}
	say()
	return strings.Split(strings.TrimSpace(buffer.String()), "\n")
}

// Every way to log writes a line of JSON.
func TestJSON(t *testing.T) {
	lines := capture(t, Config{Format: JSON, Verbosity: 2}, func() {
		klog.InfoS("structured", "key", "va\"lue")
		klog.Errorf("formatted %d", 7)
		klog.Background().Error(errors.New("reason"), "contextual")
		at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
		klog.Background().WithValues("since", at).Info("times", "until", at.AddDate(1000, 0, 0))
		klog.V(2).InfoS("detailed")
		klog.V(3).InfoS("too detailed")
		log.Print("from the standard library")
	})
	assertJSON(t, lines, []map[string]any{
		{"msg": "structured", "key": "va\"lue"},
		{"msg": "formatted 7"},
		{"msg": "contextual", "err": "reason"},
		{"msg": "times", "since": "2030-01-02T02:04:05Z", "until": "3030-01-02T02:04:05Z"},
		{"msg": "detailed", "v": 2.0},
		{"msg": "from the standard library"},
	})
}

func assertJSON(t *testing.T, lines []string, want []map[string]any) {
	t.Helper()
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), strings.Join(lines, "\n"))
	}
	for i, line := range lines {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("not JSON: %v\n%s", err, line)
		}
		for key, value := range want[i] {
			if got[key] != value {
				t.Errorf("%s is %q, want %q", key, got[key], value)
			}
		}
		if _, ok := got["ts"].(float64); !ok {
			t.Errorf("no time in %s", line)
		}
		if caller, _ := got["caller"].(string); !strings.Contains(caller, "_test.go") && !strings.Contains(line, "library") && got["msg"] != "klog warns" {
			t.Errorf("the line names another caller: %s", line)
		}
	}
}

// What a client does to itself is no error of the server.
func TestErrorsOfClients(t *testing.T) {
	ctx := context.Background()
	lines := capture(t, Config{Format: JSON}, func() {
		utilruntime.HandleErrorWithContext(ctx, errors.New("client disconnected"), "Failed to encode watch event")
		utilruntime.HandleErrorWithContext(ctx, nil, "Post-timeout activity", "path", "/x", "result", nil)
		utilruntime.HandleError(fmt.Errorf("apiserver was unable to write a JSON response: %w", http.ErrHandlerTimeout))
		utilruntime.HandleError(fmt.Errorf("apiserver received an error that is not an metav1.Status: %v", http.ErrHandlerTimeout))
		utilruntime.HandleErrorWithContext(ctx, errors.New("no such kind"), "Failed to encode watch event")
		utilruntime.HandleErrorWithContext(ctx, nil, "Post-timeout activity", "path", "/x", "result", "a panic")
		utilruntime.HandleError(errors.New("something else"))
	})
	assertJSON(t, lines, []map[string]any{
		{"msg": "Failed to encode watch event", "err": "no such kind"},
		{"msg": "Post-timeout activity", "result": "a panic"},
		{"msg": "Unhandled Error", "err": "something else"},
	})
}

// chatter logs as libraries and this package do, in every possible way.
func chatter() {
	done := make(chan struct{})
	close(done)
	yes := func() bool { return true }
	cache.WaitForNamedCacheSync("test", done, yes)                                                                           // with a format, by the old logger
	cache.WaitForNamedCacheSyncWithContext(klog.NewContext(context.Background(), klog.Background().WithValues("a", 1)), yes) // a contextual logger
	rest.WarningLogger{}.HandleWarningHeader(299, "", "a library warns")
	utilruntime.HandleError(errors.New("a library fails"))
	klog.Warning("klog warns")
	klog.Warning("Skipping API apiextensions.k8s.io/v1beta1 because it has no resources.")
	klog.Infof("we say %d", 1)
	klog.InfoS("we say", "n", 2)
	klog.FromContext(context.Background()).Info("we say", "n", 3)
	ctx := ctrllog.IntoContext(context.Background(), klog.Background())
	logger := ctrllog.FromContext(ctx).WithName("part").WithValues("controllerGroup", "g", "controllerKind", "K", "K", "o", "namespace", "", "reconcileID", "id")
	logger.Info("we say", "n", 4)
}

// At verbosity 0, libraries only warn.
func TestQuiet(t *testing.T) {
	t.Run("text", func(t *testing.T) {
		lines := capture(t, Config{Format: Text}, chatter)
		want := []string{
			`^I.*"Warning: a library warns"$`,
			`^E.*"Unhandled Error" err="a library fails"`,
			`^W.* klog warns$`,
			`^I.* logging_test\.go:\d+\] we say 1$`,
			`^I.* logging_test\.go:\d+\] "we say" n=2$`,
			`^I.* logging_test\.go:\d+\] "we say" n=3$`,
			`^I.* logging_test\.go:\d+\] "we say" logger="part" K="o" n=4$`,
		}
		if len(lines) != len(want) {
			t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), strings.Join(lines, "\n"))
		}
		for i, line := range lines {
			if !regexp.MustCompile(want[i]).MatchString(line) {
				t.Errorf("line %d is %s, want %s", i, line, want[i])
			}
		}
	})
	t.Run("JSON", func(t *testing.T) {
		lines := capture(t, Config{Format: JSON}, func() {
			chatter()
			log.Print("from the standard library")
		})
		assertJSON(t, lines, []map[string]any{
			{"msg": "Warning: a library warns"}, {"msg": "Unhandled Error"}, {"msg": "klog warns"},
			{"msg": "we say 1"}, {"msg": "we say", "n": 2.0}, {"msg": "we say", "n": 3.0},
			{"msg": "we say", "n": 4.0, "reconcileID": "id"}, // programs want to know
			{"msg": "from the standard library"},
		})
		if !strings.Contains(lines[4], `"caller":"logging/logging_test.go`) {
			t.Errorf("the line names no caller, or another: %s", lines[4])
		}
	})
	t.Run("what libraries cannot finish when the process stops", func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		StopWith(ctx)
		t.Cleanup(func() { StopWith(context.Background()) })
		lines := capture(t, Config{Format: Text}, func() {
			utilruntime.HandleError(errors.New("a library fails"))
			stop()
			utilruntime.HandleError(errors.New("context canceled"))
			rest.WarningLogger{}.HandleWarningHeader(299, "", "a watch was short")
			klog.ErrorS(errors.New("we fail"), "we say")
		})
		if len(lines) != 2 || !strings.Contains(lines[0], "a library fails") || !strings.Contains(lines[1], `"we say" err="we fail"`) {
			t.Errorf("the lines are %q", lines)
		}
	})
	t.Run("more is said from 1 on", func(t *testing.T) {
		lines := capture(t, Config{Format: JSON, Verbosity: 1}, chatter)
		if !strings.Contains(strings.Join(lines, "\n"), "Waiting for caches to sync") {
			t.Errorf("the libraries are still quiet: %q", lines)
		}
	})
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		reason string
		config Config
		want   string
	}{
		{"the default holds", DefaultConfig(), ""},
		{"unknown format", Config{Format: "xml"}, "logging.format"},
		{"negative", Config{Format: Text, Verbosity: -1}, "logging.verbosity"},
		{"too much", Config{Format: JSON, Verbosity: 11}, "logging.verbosity"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			err := tt.config.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to name %q", err, tt.want)
			}
		})
	}
}
