// Brings the drawings of a report to life: timelines that zoom and move, words beside the pointer, cycles whose
// arrows and sentences point at each other. Everything is in the page already; without this script it stands
// still and <title> elements tell the words.
"use strict";
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  const words = new WeakMap();

  // The words of an element or of what it lies in; undefined if nothing has any.
  function wordsOf(element) {
    for (let each = element; each && each !== document; each = each.parentNode) {
      if (words.has(each)) return words.get(each);
    }
    return undefined;
  }

  function tell(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(4, x + 12), window.innerWidth - box.width - 4);
    const top = y + 18 + box.height < window.innerHeight ? y + 18 : y - box.height - 12;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  }

  function tellAt(element, text) {
    const box = element.getBoundingClientRect();
    tell(text, Math.max(0, box.left), box.bottom - 10);
  }

  // One source of words at a time: the browser's own boxes would cover ours.
  for (const title of document.querySelectorAll("main svg title")) {
    words.set(title.parentNode, title.textContent);
    title.remove();
  }
  document.addEventListener("pointermove", (event) => {
    const text = wordsOf(event.target);
    if (text === undefined || event.buttons) tip.hidden = true;
    else tell(text, event.clientX, event.clientY);
  });
  document.addEventListener("pointerleave", () => { tip.hidden = true; });
  window.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  const CHARACTER = 6.7;
  const NARROW = 560;
  // As in timeline.py: heights of rows and bars, plain ones and those of a lane with many bars at a time.
  const TOP = 8;
  const BOTTOM = 24;
  const GAP = 3;
  const PLAIN = { row: 22, bar: 18, label: 16 };
  const DENSE = { row: 14, bar: 11, label: 13 };
  const DENSE_LEVELS = 8;
  const LEVELS_MAX = 14;

  class Timeline {
    constructor(root) {
      this.root = root;
      this.svg = root.querySelector("svg.lanes");
      this.area = this.svg.querySelector("svg.area");
      this.height = this.svg.viewBox.baseVal.height;
      this.areaHeight = this.area.viewBox.baseVal.height;
      const numbers = (text) => (text ? text.split(" ").map(Number) : []);
      const data = root.dataset;
      this.positions = numbers(data.positions);
      this.times = numbers(data.times);
      this.first = [Number(data.low), Number(data.high)];
      this.ends = [Number(data.first), Number(data.last)];
      this.byTime = data.axis === "time";
      this.bars = [...this.area.querySelectorAll(".bar")].map((g) => ({
        g, a: Number(g.dataset.a), b: Number(g.dataset.b), lane: Number(g.dataset.lane),
        rect: g.querySelector("rect"), text: g.querySelector("text"),
      }));
      this.heads = [...this.svg.querySelectorAll(".head")];
      this.free = data.rows === "free";
      this.bands = [...this.area.querySelectorAll(".band")].map((rect) => ({
        rect, a: Number(rect.dataset.a), b: Number(rect.dataset.b),
      }));
      this.dots = [...this.area.querySelectorAll(".point, .block")].map((g) => ({
        g, a: Number(g.dataset.a), y: Number(g.dataset.y),
      }));
      this.points = this.dots.filter((dot) => dot.g.classList.contains("point"));
      this.jumps = [...this.area.querySelectorAll(".jump")].map((line) => ({
        line, a: Number(line.dataset.a), c: Number(line.dataset.c),
      }));
      this.order = this.area.querySelector(".order");
      this.ticks = this.svg.querySelector(".ticks");
      this.output = root.querySelector("output");
      this.chosen = null;
      this.step = -1;
      const origin = this.span(...this.first);
      this.low = origin[0];
      this.high = origin[1];
      this.listen();
      this.draw();
    }

    // Steps are what events count by; by time they are stretched between the times of the events around them.
    place(step) {
      if (!this.byTime) return step;
      const last = this.times.length - 1;
      const margin = (this.times[last] - this.times[0]) / 30;
      if (step < 0) return this.times[0] + step * margin;
      if (step > last) return this.times[last] + (step - last) * margin;
      const below = Math.floor(step);
      const above = Math.min(below + 1, last);
      return this.times[below] + (this.times[above] - this.times[below]) * (step - below);
    }

    span(low, high) {
      const a = this.place(low);
      const b = this.place(high);
      return b > a ? [a, b] : [a, a + 1];
    }

    draw() {
      if (this.free && !this.drag) this.stack();
      const width = this.root.clientWidth || 960;
      const left = width < NARROW ? 58 : 96;
      this.left = left;
      this.width = width - left;
      this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
      this.area.setAttribute("x", left);
      this.area.setAttribute("width", this.width);
      this.area.setAttribute("viewBox", `0 0 ${this.width} ${this.areaHeight}`);
      const scale = this.width / (this.high - this.low);
      const x = (step) => Math.max(-1e5, Math.min(1e5, (this.place(step) - this.low) * scale));
      for (const { g, a, b, rect, text } of this.bars) {
        const from = x(a);
        const to = Math.max(x(b), from + 3);
        rect.setAttribute("x", from.toFixed(1));
        rect.setAttribute("width", (to - from).toFixed(1));
        g.style.display = to < 0 || from > this.width ? "none" : "";
        const start = Math.max(from, 0) + 4;
        const fits = Math.floor((Math.min(to, this.width) - start - 2) / CHARACTER);
        const label = text.dataset.label;
        text.setAttribute("x", start.toFixed(1));
        text.textContent = label.length <= fits ? label : fits > 2 ? `${label.slice(0, fits - 1)}…` : "";
      }
      for (const { rect, a, b } of this.bands) {
        rect.setAttribute("x", x(a).toFixed(1));
        rect.setAttribute("width", Math.max(x(b) - x(a), 2).toFixed(1));
      }
      for (const { g, a, y } of this.dots) g.setAttribute("transform", `translate(${x(a).toFixed(1)} ${y})`);
      for (const { line, a, c } of this.jumps) {
        line.setAttribute("x1", x(a).toFixed(1));
        line.setAttribute("x2", x(c).toFixed(1));
      }
      if (this.order) {
        this.order.setAttribute("points", this.points.map(({ a, y }) => `${x(a).toFixed(1)},${y}`).join(" "));
      }
      this.points.forEach(({ g, a }, index) => {
        const next = this.points[index + 1];
        const before = this.points[index - 1];
        const room = Math.min(next ? x(next.a) - x(a) : 99, before ? x(a) - x(before.a) : 99);
        g.querySelector("circle").setAttribute("r", room < 9 ? 2.5 : 6.5);
        g.querySelector("text").style.display = room < 9 ? "none" : "";
      });
      this.drawTicks(scale);
      this.root.dataset.view = `${this.low.toFixed(2)} ${this.high.toFixed(2)}`;
    }

    // Rows for the bars in view: those of one lane that overlap lie below each other.
    stack() {
      const lanes = this.heads.map(() => []);
      for (const bar of this.bars) {
        if (this.place(bar.b) >= this.low && this.place(bar.a) <= this.high) lanes[bar.lane].push(bar);
      }
      const depths = lanes.map((bars) => {
        const free = [];
        for (const bar of bars.sort((one, two) => one.a - two.a)) {
          const found = free.findIndex((end) => end <= bar.a);
          bar.level = found >= 0 ? found : Math.min(free.length, LEVELS_MAX - 1);
          free[bar.level] = Math.max(free[bar.level] ?? bar.b, bar.b);
        }
        return Math.max(1, free.length);
      });
      const size = Math.max(...depths) > DENSE_LEVELS ? DENSE : PLAIN;
      let top = TOP;
      this.heads.forEach((head, lane) => {
        head.setAttribute("transform", `translate(0 ${top})`);
        head.querySelector("text").setAttribute("y", size.label);
        for (const { rect, text, level } of lanes[lane]) {
          const y = top + 3 + level * size.row;
          rect.setAttribute("y", y);
          rect.setAttribute("height", size.bar);
          text.setAttribute("y", y + 13);
          text.style.display = size === DENSE ? "none" : "";
        }
        top += depths[lane] * size.row + GAP;
      });
      this.areaHeight = top;
      this.height = top + BOTTOM;
      this.area.setAttribute("height", top);
      for (const { rect } of this.bands) rect.setAttribute("height", top - TOP);
      this.ticks.dataset.y = top;
    }

    drawTicks(scale) {
      const many = Math.max(3, Math.floor(this.width / 90));
      const y = Number(this.ticks.dataset.y) + 16;
      const labels = this.byTime ? this.timeTicks(many) : this.eventTicks(many);
      this.ticks.replaceChildren(...labels.map(([place, label]) => {
        const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
        text.setAttribute("class", "tick");
        text.setAttribute("x", (this.left + (place - this.low) * scale).toFixed(1));
        text.setAttribute("y", y);
        text.setAttribute("text-anchor", "middle");
        text.textContent = label;
        return text;
      }));
    }

    eventTicks(many) {
      const every = Math.max(1, Math.ceil((this.high - this.low) / many));
      const ticks = [];
      for (let rank = Math.max(0, Math.ceil(this.low)); rank <= this.high && rank < this.positions.length; rank++) {
        if (rank % every === 0) ticks.push([rank, String(this.positions[rank])]);
      }
      return ticks;
    }

    timeTicks(many) {
      const rough = (this.high - this.low) / many;
      const power = 10 ** Math.floor(Math.log10(rough));
      const every = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
      const [unit, size] = every >= 1e8 ? ["s", 1e9] : every >= 1e5 ? ["ms", 1e6] : every >= 100 ? ["µs", 1e3] : ["ns", 1];
      const digits = Math.max(0, -Math.floor(Math.log10(every / size) + 1e-9));
      const ticks = [];
      for (let at = Math.ceil(this.low / every) * every; at <= this.high; at += every) {
        ticks.push([at, `${(at / size).toFixed(digits)} ${unit}`]);
      }
      return ticks;
    }

    show(low, high) {
      const [first, last] = this.span(...this.ends);
      const least = this.byTime ? (last - first) / 1e5 : 2;
      const width = Math.min(Math.max(high - low, least), last - first);
      const middle = (low + high) / 2;
      this.low = Math.min(Math.max(middle - width / 2, first), last - width);
      this.high = this.low + width;
      tip.hidden = true;
      this.draw();
    }

    zoom(factor, share = 0.5) {
      const fixed = this.low + (this.high - this.low) * share;
      const width = (this.high - this.low) * factor;
      this.show(fixed - width * share, fixed + width * (1 - share));
    }

    move(share) {
      const shift = (this.high - this.low) * share;
      const [first, last] = this.span(...this.ends);
      const kept = Math.min(Math.max(shift, first - this.low), last - this.high);
      this.show(this.low + kept, this.high + kept);
    }

    switchAxis() {
      if (!this.times.length) return;
      const back = (at) => this.stepAt(at);
      const steps = [back(this.low), back(this.high)];
      this.byTime = !this.byTime;
      const button = this.root.querySelector('[data-do="axis"]');
      if (button) button.textContent = this.byTime ? "by event" : "by time";
      this.show(...this.span(...steps));
    }

    stepAt(at) {
      if (!this.byTime) return at;
      const last = this.times.length - 1;
      const margin = (this.times[last] - this.times[0]) / 30;
      if (at <= this.times[0]) return (at - this.times[0]) / margin;
      if (at >= this.times[last]) return last + (at - this.times[last]) / margin;
      let above = 1;
      while (this.times[above] < at) above += 1;
      const gap = this.times[above] - this.times[above - 1];
      return above - 1 + (gap ? (at - this.times[above - 1]) / gap : 0);
    }

    // Mark an element, bring it into view and tell its words.
    choose(g, a, index) {
      if (this.chosen) this.chosen.classList.remove("hot");
      this.chosen = g;
      g.classList.add("hot");
      const at = this.place(a);
      if (at < this.low || at > this.high) {
        const half = (this.high - this.low) / 2;
        this.show(at - half, at + half);
      }
      const text = words.get(g) || "";
      tellAt(g, text);
      this.output.textContent = index === undefined ? "" : text;
    }

    walk(by) {
      const place = this.bars.findIndex(({ g }) => g === this.chosen);
      const next = place < 0 ? this.bars.findIndex(({ a }) => this.place(a) >= this.low) : place + by;
      const bar = this.bars[Math.min(Math.max(next, 0), this.bars.length - 1)];
      if (bar) this.choose(bar.g, bar.a);
    }

    go(by) {
      if (!this.points.length) return;
      this.step = this.step < 0 ? this.points.length - 1 : Math.min(Math.max(this.step + by, 0), this.points.length - 1);
      const point = this.points[this.step];
      this.choose(point.g, point.a, this.step);
    }

    act(what) {
      const actions = {
        in: () => this.zoom(0.6), out: () => this.zoom(1 / 0.6), left: () => this.move(-0.3), right: () => this.move(0.3),
        fault: () => this.show(...this.span(...this.first)), all: () => this.show(...this.span(...this.ends)),
        axis: () => this.switchAxis(), back: () => this.go(-1), next: () => this.go(1),
        after: () => this.walk(1), before: () => this.walk(-1),
      };
      actions[what]();
    }

    listen() {
      const tools = this.root.querySelector(".tools");
      tools.hidden = false;
      tools.addEventListener("click", (event) => {
        const button = event.target.closest("button");
        if (button) this.act(button.dataset.do);
      });
      const keys = {
        "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "fault", a: "all", t: "axis",
        "[": "back", "]": "next", n: "after", p: "before",
      };
      this.root.addEventListener("keydown", (event) => {
        const what = keys[event.key];
        if (!what || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        this.act(what);
      });
      this.root.addEventListener("blur", () => { tip.hidden = true; });
      // A plain wheel scrolls the page; with ctrl, or a pinch, which browsers report as that, it zooms.
      this.svg.addEventListener("wheel", (event) => {
        if (event.ctrlKey || event.metaKey) {
          event.preventDefault();
          const box = this.svg.getBoundingClientRect();
          const share = (event.clientX - box.left - this.left) / this.width;
          this.zoom(Math.exp(event.deltaY / 300), Math.min(Math.max(share, 0), 1));
        } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
          event.preventDefault();
          this.move(event.deltaX / this.width);
        }
      }, { passive: false });
      this.svg.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        this.drag = { x: event.clientX, low: this.low, high: this.high };
        this.svg.classList.add("drag");
        this.svg.setPointerCapture(event.pointerId);
      });
      this.svg.addEventListener("pointermove", (event) => {
        if (!this.drag) return;
        const { x, low, high } = this.drag;
        const shift = ((x - event.clientX) / this.width) * (high - low);
        const [first, last] = this.span(...this.ends);
        const kept = Math.min(Math.max(shift, first - low), last - high);
        this.show(low + kept, high + kept);
      });
      for (const end of ["pointerup", "pointercancel"]) {
        this.svg.addEventListener(end, () => {
          this.drag = null;
          this.svg.classList.remove("drag");
          this.draw();
        });
      }
    }
  }

  const timelines = [...document.querySelectorAll(".timeline")].map((root) => new Timeline(root));
  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => timelines.forEach((each) => each.draw()));
  });
  for (const part of document.querySelectorAll("details")) {
    part.addEventListener("toggle", () => timelines.forEach((each) => part.contains(each.root) && each.draw()));
  }

  // An arrow, its sentence and the boxes at its ends light up together.
  for (const cycle of document.querySelectorAll(".cycle")) {
    const light = (step, on) => {
      for (const part of cycle.querySelectorAll(`[data-step="${step}"]`)) part.classList.toggle("hot", on);
      const count = cycle.querySelectorAll("li[data-step]").length;
      const nodes = cycle.querySelectorAll(".node");
      for (const place of [step, (Number(step) + 1) % count]) {
        if (nodes[place]) nodes[place].classList.toggle("hot", on);
      }
    };
    for (const part of cycle.querySelectorAll("[data-step]")) {
      part.addEventListener("pointerenter", () => light(part.dataset.step, true));
      part.addEventListener("pointerleave", () => light(part.dataset.step, false));
    }
  }
  document.documentElement.dataset.ready = "yes";
})();
