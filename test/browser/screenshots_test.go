package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// maxScreenshot is the most bytes of a picture of the documentation.
const maxScreenshot = 80_000

// TestScreenshots makes the pictures of the documentation.
func TestScreenshots(t *testing.T) {
	if *screenshotsFlag == "" {
		t.Skip("no folder for pictures was given; 'make screenshots' gives one")
	}
	w := newWorld(t)
	for _, line := range []string{
		"certplane request --signer server --dns web.example.com --dns www.web.example.com --ip 10.0.0.7 --name web --out web --wait 0",
		"certplane request --signer kubernetes.io/kube-apiserver-client --cn carol --org team-a --name carol --out carol --expires 1d --wait 0",
		"sh request.sh payments payments.shop.example.com",
		"certplane request --signer example.com/web --dns api.example.com --name api --out api --approve",
		"certplane request --signer example.com/web --dns mail.example.com --name mail --out mail --approve",
	} {
		w.run(t, line)
	}
	w.until(t, "all certificates are in the inventory", "certplane certificates | grep mail.example.com")
	b := newBrowser(t, w).tab(t)
	for _, picture := range []struct{ name, at, shows string }{
		{"requests", "requests", "csr/web"},
		{"request", "object/certificatesigningrequests.certificates.k8s.io/-/web", "Approve"},
		{"issued", "issued", "mail.example.com"},
		{"signers", "signers", "example.com/web"},
	} {
		b.open(w.console + picture.at)
		b.shows(picture.shows, "Updated at")
		evaluate[bool](b, "document.getElementById('live').textContent = '', true") // the time differs with each picture
		b.picture("console-" + picture.name + ".png")
	}
}

// picture writes what the window shows.
func (b *tab) picture(name string) {
	b.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	data, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, fewColors(full)); err != nil {
		b.Fatal(err)
	}
	if out.Len() > maxScreenshot {
		b.Errorf("%s has %d bytes, want at most %d", name, out.Len(), maxScreenshot)
	}
	if err := os.MkdirAll(*screenshotsFlag, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshotsFlag, name), out.Bytes(), 0o644); err != nil {
		b.Fatal(err)
	}
}

// fewColors returns a picture with its most frequent colors, which makes it small.
func fewColors(from image.Image) image.Image {
	const most = 256
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	area := from.Bounds()
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	var colors []color.RGBA
	for c := range count {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range colors[:min(len(colors), most)] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	for _, c := range colors {
		nearest[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(area, palette)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			to.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	return to
}
