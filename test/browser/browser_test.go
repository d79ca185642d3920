package browser

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser is a running Chromium.
type browser struct{ ctx context.Context }

// newBrowser starts Chromium until the test ends. It asks nothing of other servers, and
// accepts certificates by their keys.
func newBrowser(t *testing.T, w *world) *browser {
	t.Helper()
	allocator, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(chromium()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("ignore-certificate-errors-spki-list", strings.Join(w.keys, ",")),
	)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	return &browser{ctx}
}

// tab is a page of a browser that has no cookies at first. When the test ends, it must
// have reported no error, and have asked nothing of other servers.
type tab struct {
	*testing.T
	ctx context.Context

	// mu guards what the browser reports.
	mu        sync.Mutex
	requests  map[network.RequestID]*network.EventRequestWillBeSent
	bytes     map[network.RequestID]int64
	documents map[string]bool
	problems  []string
}

// The sizes of windows.
const (
	desktopWidth, phoneWidth = 1200, 390
	windowHeight             = 800
)

func (c *browser) tab(t *testing.T) *tab {
	t.Helper()
	b := &tab{T: t, documents: map[string]bool{}}
	b.forget()
	ctx, cancel := chromedp.NewContext(c.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.listen))
	b.ctx = ctx
	t.Cleanup(func() {
		b.check()
		cancel()
	})
	b.do(chromedp.EmulateViewport(desktopWidth, windowHeight))
	b.scheme("light")
	return b
}

// listen keeps what the browser reports of the page.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests[e.RequestID] = e
		if !sameOrigin(e.Request.URL, e.DocumentURL) {
			b.problems = append(b.problems, fmt.Sprintf("the page %s asks for %s", e.DocumentURL, e.Request.URL))
		}
		if e.Type == network.ResourceTypeDocument {
			b.documents[e.Request.URL] = true
		}
	case *network.EventDataReceived:
		b.bytes[e.RequestID] += e.DataLength
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, fmt.Sprintf("exception: %s", e.ExceptionDetails.Text))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			b.problems = append(b.problems, fmt.Sprintf("console.%s: %v", e.Type, e.Args))
		}
	case *log.EventEntryAdded:
		// The status code reports a page that cannot be shown.
		status := e.Entry.Source == log.EntrySourceNetwork && b.documents[e.Entry.URL]
		if e.Entry.Level == log.EntryLevelError && !status {
			b.problems = append(b.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// forget drops the reports of earlier pages.
func (b *tab) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests, b.bytes = map[network.RequestID]*network.EventRequestWillBeSent{}, map[network.RequestID]int64{}
}

// sameOrigin reports whether two URLs are of the same server.
func sameOrigin(a, b string) bool {
	first, errFirst := url.Parse(a)
	second, errSecond := url.Parse(b)
	return errFirst == nil && errSecond == nil && first.Scheme == second.Scheme && first.Host == second.Host
}

// check fails the test if the browser has reported an error.
func (b *tab) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		b.Errorf("the browser reports: %s", problem)
	}
}

// size returns the bytes of the page with its assets, before they were compressed, and a
// list of them.
func (b *tab) size() (all int64, list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, r := range b.requests {
		switch r.Type {
		case network.ResourceTypeDocument, network.ResourceTypeStylesheet, network.ResourceTypeScript, network.ResourceTypeImage, network.ResourceTypeOther:
			all += b.bytes[id]
			list = append(list, fmt.Sprintf("%s %d", r.Request.URL, b.bytes[id]))
		}
	}
	return all, list
}

// do takes steps that do not leave the page.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatalf("%v; the page is\n%s", err, b.text())
	}
}

// bounded returns the context of steps. The first step starts the page.
func (b *tab) bounded() (context.Context, context.CancelFunc) {
	if chromedp.FromContext(b.ctx).Target == nil {
		return b.ctx, func() {}
	}
	return context.WithTimeout(b.ctx, patience)
}

// follow takes steps that lead to a page, and returns its status code.
func (b *tab) follow(steps ...chromedp.Action[chromedp.Void]) int64 {
	b.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	answer, err := chromedp.RunResponse(ctx, steps...)
	if err != nil {
		b.Fatalf("%v; the page is\n%s", err, b.text())
	}
	return answer.Status
}

// open opens a page, and returns its status code.
func (b *tab) open(at string) int64 {
	b.Helper()
	return b.follow(chromedp.Navigate(at))
}

// press presses keys.
func press(keys ...string) chromedp.Action[chromedp.Void] {
	return chromedp.KeyEvent(strings.Join(keys, ""))
}

// tabTo presses Tab until the element with the focus is one that a CSS selector selects
// and that has a text.
func (b *tab) tabTo(selector, text string) {
	b.Helper()
	const most = 80
	for range most {
		b.do(press(kb.Tab))
		if evaluate[bool](b, fmt.Sprintf("document.activeElement.matches(%q) && document.activeElement.textContent.includes(%q)", selector, text)) {
			return
		}
	}
	b.Fatalf("no %s with the text %q has the focus after Tab was pressed %d times", selector, text, most)
}

// evaluate returns the value of an expression of JavaScript.
func evaluate[T any](b *tab, expression string) T {
	b.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", expression[:min(len(expression), 200)], err)
	}
	return value
}

// text returns the text of the page as people see it.
func (b *tab) text() string {
	b.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return "(unknown: " + err.Error() + ")"
	}
	return text
}

// shows waits until the page has texts.
func (b *tab) shows(texts ...string) {
	b.Helper()
	b.until(fmt.Sprintf("the page shows %q", texts), func(text string) bool {
		for _, want := range texts {
			if !strings.Contains(text, want) {
				return false
			}
		}
		return true
	})
}

// showsNot checks that the page, which is complete, does not have texts.
func (b *tab) showsNot(texts ...string) {
	b.Helper()
	shown := b.text()
	for _, text := range texts {
		if strings.Contains(shown, text) {
			b.Errorf("the page shows %q:\n%s", text, shown)
		}
	}
}

// until waits until something holds of the text of the page.
func (b *tab) until(what string, holds func(text string) bool) {
	b.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		text := b.text()
		if holds(text) {
			return
		}
		select {
		case <-end:
			b.Fatalf("waited %s until %s; it is\n%s", patience, what, text)
		case <-tick.C:
		}
	}
}

// count returns how many elements a CSS selector selects.
func (b *tab) count(selector string) int {
	b.Helper()
	return evaluate[int](b, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

// scheme has pages use light or dark colors.
func (b *tab) scheme(colors string) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colors}},
		})
		return err
	}))
}

// width gives the window a width.
func (b *tab) width(pixels int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(pixels, windowHeight))
}

// withoutScripts switches scripts off.
func (b *tab) withoutScripts() {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
}

// paste puts a text where the focus is, at once.
func paste(text string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: text})
		return err
	})
}

// login logs in with a token.
func (b *tab) login(w *world, token string) {
	b.Helper()
	b.open(w.server + "/console/")
	b.do(chromedp.Focus(chromedp.CSS("#token")), paste(token))
	b.follow(chromedp.Click(chromedp.CSS("main form button")))
	b.shows("Log out")
}
