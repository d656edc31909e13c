package alert

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/term"
)

// metricsSuffix is how the names of files end that the textfile collector reads.
const metricsSuffix = ".prom"

// successName is the only metric that lasts longer than a run.
const successName = "lockstep_run_last_success_timestamp_seconds"

// checkMetricsFile refuses a file that would not be read, or cannot be written.
func checkMetricsFile(path string) error {
	if path == "" {
		return nil
	}
	if !strings.HasSuffix(path, metricsSuffix) {
		return term.Usage(fmt.Errorf("--metrics-file %s: the name has to end in %s", path, metricsSuffix), "node exporter reads no other files")
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return term.Usage(fmt.Errorf("--metrics-file %s is not a regular file, and cannot be replaced by one", path), "name a file in the directory that node exporter has as --collector.textfile.directory")
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return term.Usage(fmt.Errorf("--metrics-file %s: there is no directory %s", path, filepath.Dir(path)), "name a file in the directory that node exporter has as --collector.textfile.directory")
	}
	return nil
}

// writeMetrics replaces the metrics file by what is known of a run that has ended.
func (w *watch) writeMetrics(out *Outcome, code int, began time.Time) {
	if w.metrics == "" {
		return
	}
	if err := w.replaceMetrics(out, code, began, time.Now()); err != nil {
		w.warn(fmt.Errorf("--metrics-file: %w", err))
	}
}

func (w *watch) replaceMetrics(out *Outcome, code int, began, now time.Time) error {
	success, err := lastSuccess(w.metrics)
	if err != nil {
		return err
	}
	if code == 0 {
		success = seconds(now)
	}
	r := prometheus.NewRegistry()
	labels := prometheus.Labels{"command": w.run.Command, "source": w.run.Source, "dest": w.run.Dest}
	if err := prometheus.WrapRegistererWith(labels, r).Register(admin.Sampler(func(f *admin.Figures) {
		f.Gauge("lockstep_run_timestamp_seconds", "When the last run ended.", seconds(now))
		f.Gauge("lockstep_run_duration_seconds", "How long the last run took.", now.Sub(began).Seconds())
		f.Gauge("lockstep_run_exit_code", "Exit code of the last run: 0 is success.", float64(code))
		if success > 0 {
			f.Gauge(successName, "When the last run that succeeded ended.", success)
		}
		if out.Figures != nil {
			out.Figures(f)
		}
	})); err != nil {
		return err
	}
	return prometheus.WriteToTextfile(w.metrics, r)
}

// lastSuccess returns when a run last succeeded, as a metrics file has it; 0 if none
// did, or if the file is not one of ours.
func lastSuccess(path string) (float64, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	}
	defer func() { _ = f.Close() }() // read only
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), successName+"{"); ok {
			value, _ := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64) // a broken file is replaced
			return value, nil
		}
	}
	return 0, nil // also if it cannot be read further: it is replaced
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
